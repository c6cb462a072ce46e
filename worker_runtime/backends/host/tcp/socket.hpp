// TCP sockets of the connections between ranks. Nothing blocks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tcp {

/// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() noexcept;

 private:
  int fd_ = -1;
};

/// Listening addresses of a rank, numeric, in the order of attempts: only a rank on another machine
/// can determine which of them is reachable.
struct PeerAddress {
  std::vector<std::string> addresses;
  std::uint16_t port = 0;

  bool operator==(const PeerAddress&) const = default;
};

struct Listening {
  Socket socket;
  PeerAddress address;
};

/// Listens at `own_address`, this machine's address in its connection to the store, at a port
/// chosen by the kernel; for a loopback address, at all addresses of this machine.
Listening listen_for_peers(const std::string& own_address);

/// A connecting socket; POLLOUT signals the end of the attempt. `error` is an errno if the attempt
/// failed immediately.
struct Dialled {
  Socket socket;
  int error = 0;
};
Dialled dial(const std::string& address, std::uint16_t port);

/// Returns the result of a dial() that has ended: 0 or an errno.
int dial_error(int fd);

/// Returns a new connection of the listener, or a closed Socket if none is pending. Throws
/// Error{Errc::system} if this process or machine lacks descriptors or memory.
Socket accept_from(int listener);

/// Returns text such as "10.0.0.1 or 10.0.0.2, port 4711".
std::string to_string(const PeerAddress& address);

}  // namespace ddprun::tcp
