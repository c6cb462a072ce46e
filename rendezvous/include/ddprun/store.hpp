// A worker's view of the key-value store through which the workers of a run find each other. The
// server is in the agent; the protocol is that of PyTorch's TCPStore, so the server may as well be
// PyTorch's. This is a blocking client: one connection, no thread. An object may be used by one
// thread at a time.
#pragma once

#include <ddprun/deadline.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Where a store listens. `host` is a name or an address; IPv6 addresses without brackets.
struct StoreEndpoint {
  std::string host = "127.0.0.1";  ///< name or address
  std::uint16_t port = 0;          ///< TCP port; 0 is none

  bool operator==(const StoreEndpoint&) const = default;
};

/// Keys are at most 8 KiB and values at most 8 MiB. Every function blocks until the answer is there
/// or `deadline` has passed; then it throws Error{Errc::timeout} naming the endpoint, the key, the
/// elapsed and the allowed time. After an Error other than that of wait() the connection is closed
/// and every further call throws Errc::closed.
class Store {
 public:
  /// Connects, retrying a refused connection until the deadline.
  static Store connect(const StoreEndpoint& endpoint, Deadline deadline);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// A second connection to the same server whose keys all begin with "`prefix`/".
  Store with_prefix(const std::string& prefix, Deadline deadline) const;

  /// Sets the key to `value`.
  void set(std::string_view key, std::string_view value, Deadline deadline);

  /// Waits until the key exists and returns its value.
  std::string get(std::string_view key, Deadline deadline);

  /// The value, or nothing if the key does not exist now.
  std::optional<std::string> try_get(std::string_view key, Deadline deadline);

  /// Adds to the key's value, which is decimal text and counts as 0 when absent; returns the sum.
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline);

  /// Stores `desired` if the value equals `expected`, or if the key is absent and `expected` is
  /// empty. Returns the value afterwards; `expected` itself if the key is absent and `expected` is
  /// not empty (PyTorch's rule).
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                          Deadline deadline);

  /// Appends `bytes` to the key's value, which counts as empty when absent.
  void append(std::string_view key, std::string_view bytes, Deadline deadline);

  /// Returns true if all keys exist now.
  bool check(std::span<const std::string> keys, Deadline deadline);

  /// Waits until each of the keys has been created. The store stays usable after a timeout.
  void wait(std::span<const std::string> keys, Deadline deadline);

  /// True if the key existed.
  bool erase(std::string_view key, Deadline deadline);

  /// The number of keys in the store.
  std::int64_t number_of_keys(Deadline deadline);

  /// Waits until all keys exist and returns their values in the order of `keys`.
  std::vector<std::string> multi_get(std::span<const std::string> keys, Deadline deadline);
  /// Sets each key to the value of the same index; there are as many of both.
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values,
                 Deadline deadline);

  /// Appends a value to the queue.
  void queue_push(std::string_view key, std::string_view value, Deadline deadline);
  /// Waits for a value and removes it from the front of the queue.
  std::string queue_pop(std::string_view key, Deadline deadline);
  /// The number of values in the queue; 0 if there is no such queue.
  std::int64_t queue_length(std::string_view key, Deadline deadline);

  /// All keys, in no particular order.
  std::vector<std::string> list_keys(Deadline deadline);

  /// Returns when `world_size` clients have called it with this key. A key serves one barrier only.
  void barrier(std::string_view key, std::int64_t world_size, Deadline deadline);

  /// The endpoint to which connect() has connected.
  const StoreEndpoint& endpoint() const;

  /// This machine's address, in numbers, on its way to the server.
  std::string local_address() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
