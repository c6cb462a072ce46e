// Client of the key-value store through which the workers of a run find each other. The server
// runs in the agent. The protocol is PyTorch's TCPStore, so PyTorch's server can be used as well.
// The client is blocking, with one connection and no thread. One thread at a time may use an
// object.
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

/// Address of a store.
struct StoreEndpoint {
  std::string host = "127.0.0.1";  ///< name or address
  std::uint16_t port = 0;          ///< TCP port; 0: none

  bool operator==(const StoreEndpoint&) const = default;
};

/// Keys have at most 8 KiB and values at most 8 MiB. Every function blocks until the response
/// arrives or `deadline` passes; then it throws Error{Errc::timeout} with the endpoint, the key,
/// and the elapsed and allowed time. After any Error, except from wait(), the connection is closed
/// and every further call throws Errc::closed.
class Store {
 public:
  /// Connects to the server. Retries refused connections until the deadline.
  static Store connect(const StoreEndpoint& endpoint, Deadline deadline);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Opens a second connection to the same server, which prepends "`prefix`/" to all keys.
  Store with_prefix(const std::string& prefix, Deadline deadline) const;

  /// Sets the key to `value`.
  void set(std::string_view key, std::string_view value, Deadline deadline);

  /// Waits until the key exists and returns its value.
  std::string get(std::string_view key, Deadline deadline);

  /// Returns the value, or nothing if the key does not exist.
  std::optional<std::string> try_get(std::string_view key, Deadline deadline);

  /// Adds `delta` to the key's value, decimal text that is 0 if missing, and returns the sum.
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline);

  /// Stores `desired` if the value equals `expected`, or if the key is missing and `expected` is
  /// empty. Returns the value afterwards. If the key is missing and `expected` is not empty,
  /// returns `expected` (PyTorch's rule).
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                          Deadline deadline);

  /// Appends `bytes` to the key's value, which is empty if the key is missing.
  void append(std::string_view key, std::string_view bytes, Deadline deadline);

  /// Returns true if all keys exist.
  bool check(std::span<const std::string> keys, Deadline deadline);

  /// Waits until all keys exist. The store remains usable after a timeout.
  void wait(std::span<const std::string> keys, Deadline deadline);

  /// Deletes the key. Returns true if it existed.
  bool erase(std::string_view key, Deadline deadline);

  /// Returns the number of keys in the store.
  std::int64_t number_of_keys(Deadline deadline);

  /// Waits until all keys exist and returns their values in the order of `keys`.
  std::vector<std::string> multi_get(std::span<const std::string> keys, Deadline deadline);
  /// Sets each key to the value with the same index. `keys` and `values` have equal sizes.
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values,
                 Deadline deadline);

  /// Appends a value to the queue.
  void queue_push(std::string_view key, std::string_view value, Deadline deadline);
  /// Waits for a value at the front of the queue, removes it and returns it.
  std::string queue_pop(std::string_view key, Deadline deadline);
  /// Returns the number of values in the queue; 0 if it does not exist.
  std::int64_t queue_length(std::string_view key, Deadline deadline);

  /// Returns all keys in unspecified order.
  std::vector<std::string> list_keys(Deadline deadline);

  /// Blocks until `world_size` clients have called it with `key`, which serves one barrier only.
  void barrier(std::string_view key, std::int64_t world_size, Deadline deadline);

  /// Returns the endpoint that connect() has connected to.
  const StoreEndpoint& endpoint() const;

  /// Returns the numeric local address of the connection to the server.
  std::string local_address() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
