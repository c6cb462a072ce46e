// A blocking TCP connection with a deadline for each operation. For one thread at a time.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <netdb.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Result of a transfer.
struct Transfer {
  enum class End { done, timed_out, closed_by_peer, broken } end = End::done;
  int error_number = 0;  ///< errno value if broken

  bool is_done() const { return end == End::done; }

  /// Returns text such as "the connection was closed by the server".
  std::string describe() const;
};

class ClientSocket {
 public:
  ClientSocket() = default;
  ClientSocket(ClientSocket&& other) noexcept;
  ClientSocket& operator=(ClientSocket&& other) noexcept;
  ~ClientSocket() { close(); }

  /// Tries each address of the endpoint once, for at most 5 s and an equal share of the remaining
  /// time. Returns the last error; empty on success.
  std::string connect(const StoreEndpoint& endpoint, Deadline deadline);

  /// The same for these addresses.
  std::string connect(const addrinfo* addresses, Deadline deadline);

  bool is_open() const { return fd_ >= 0; }
  /// Returns the numeric local address. Throws Error{Errc::system} if not connected.
  std::string local_address() const;
  void close() noexcept;

  Transfer send(std::string_view bytes, Deadline deadline);

  /// Receives exactly `count` bytes.
  Transfer receive(char* bytes, std::size_t count, Deadline deadline);

 private:
  static constexpr std::size_t kBufferBytes = 4096;  ///< a whole reply of the usual size

  int connect_once(const addrinfo& address, Deadline deadline);
  Transfer wait_for(short events, Deadline deadline) const;

  int fd_ = -1;
  std::array<char, kBufferBytes> buffer_;  ///< received, not yet consumed bytes: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace ddprun
