#include "worker_runtime/backends/host/tcp/socket.hpp"

#include <ddprun/error.hpp>

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ddprun::tcp {

namespace {

// All ranks connect at about the same time; further connections are retried by the kernel.
constexpr int kBacklog = 256;
// For a new connection; see Silence for the time after its handshake.
constexpr int kUnacknowledgedMilliseconds = 15'000;
constexpr int kKeepaliveIdleSeconds = 5;
constexpr int kKeepaliveIntervalSeconds = 3;
constexpr int kKeepaliveProbes = 3;

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&storage); }
  auto& v4() { return reinterpret_cast<sockaddr_in&>(storage); }
  auto& v6() { return reinterpret_cast<sockaddr_in6&>(storage); }
};

Address parse(const std::string& text, std::uint16_t port) {
  Address address;
  if (::inet_pton(AF_INET, text.c_str(), &address.v4().sin_addr) == 1) {
    address.storage.ss_family = AF_INET;
    address.v4().sin_port = htons(port);
    address.bytes = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, text.c_str(), &address.v6().sin6_addr) == 1) {
    address.storage.ss_family = AF_INET6;
    address.v6().sin6_port = htons(port);
    address.bytes = sizeof(sockaddr_in6);
  }
  return address;
}

bool is_loopback(const std::string& text) {
  return text.rfind("127.", 0) == 0 || text == "::1";
}

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

/// All options are optional, so a kernel that lacks one is accepted. The kernel sizes buffers by
/// the bandwidth-delay product. Cubic performs best between nearby machines, regardless of the
/// default.
void set_options(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMilliseconds);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

/// Returns the IPv4 addresses of this machine's active interfaces without loopback.
std::vector<std::string> addresses_of_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  std::vector<std::string> found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr)
      found.emplace_back(text);
  }
  return found;
}

}  // namespace

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Listening listen_for_peers(const std::string& own_address) {
  Listening listening;
  listening.address.addresses = {own_address};
  std::string bind_to = own_address;
  if (is_loopback(own_address)) {
    const auto others = addresses_of_interfaces();
    listening.address.addresses.insert(listening.address.addresses.end(), others.begin(),
                                       others.end());
    if (!others.empty()) bind_to = own_address == "::1" ? "::" : "0.0.0.0";
  }
  Address address = parse(bind_to, 0);
  listening.socket =
      Socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int fd = listening.socket.fd();
  if (fd < 0 || ::bind(fd, address.generic(), address.bytes) != 0 || ::listen(fd, kBacklog) != 0)
    throw_system_error("process group: listening at " + bind_to, errno);
  set_options(fd);
  if (::getsockname(fd, address.generic(), &address.bytes) != 0)
    throw_system_error("process group: own port", errno);
  listening.address.port =
      ntohs(address.storage.ss_family == AF_INET6 ? address.v6().sin6_port : address.v4().sin_port);
  return listening;
}

Dialled dial(const std::string& text, std::uint16_t port) {
  Address address = parse(text, port);
  if (address.bytes == 0) return {Socket(), EAFNOSUPPORT};
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return {Socket(), errno};
  set_options(socket.fd());
  const bool is_under_way =
      ::connect(socket.fd(), address.generic(), address.bytes) == 0 || errno == EINPROGRESS;
  if (!is_under_way) return {Socket(), errno};
  return {std::move(socket), 0};
}

int dial_error(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

Socket accept_from(int listener) {
  Socket socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) {
    set_options(socket.fd());
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    // The connection remains pending, so the listener would be ready again at once. Other errors
    // are those of the connection.
    throw_system_error("process group: accepting a connection", errno);
  }
  return socket;
}

std::string to_string(const PeerAddress& address) {
  std::string text;
  for (const auto& one : address.addresses) text += (text.empty() ? "" : " or ") + one;
  return text + ", port " + std::to_string(address.port);
}

}  // namespace ddprun::tcp
