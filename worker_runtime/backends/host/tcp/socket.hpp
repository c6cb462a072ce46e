// TCP sockets of the connections between ranks. Nothing here blocks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tcp {

/// A descriptor and its owner.
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

/// Where a rank listens. The addresses are numeric and tried in their order: only a rank on another
/// machine can tell which of them it reaches.
struct PeerAddress {
  std::vector<std::string> addresses;
  std::uint16_t port = 0;

  bool operator==(const PeerAddress&) const = default;
};

struct Listening {
  Socket socket;
  PeerAddress address;
};

/// Listens at `own_address`, by which this machine speaks to the store, at a port that the kernel
/// chooses. A loopback address says nothing about how others get here, so then it is every address
/// of this machine.
Listening listen_for_peers(const std::string& own_address);

/// A socket that connects to one of the addresses; POLLOUT tells of the end. Its errno if it cannot
/// even begin.
struct Dialled {
  Socket socket;
  int error = 0;
};
Dialled dial(const std::string& address, std::uint16_t port);

/// What became of a dial() that has ended: 0 or an errno.
int dial_error(int fd);

/// A new connection of the listener, if there is one.
Socket accept_from(int listener);

/// "10.0.0.1 or 10.0.0.2, port 4711".
std::string to_string(const PeerAddress& address);

}  // namespace ddprun::tcp
