#include "rendezvous/store/listener.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/error.hpp>

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <netinet/in.h>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

// Maximum candidates listed as holders of a port.
constexpr std::size_t kHiddenMax = 3;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses look_up(const StoreEndpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0) {
    throw Error(Errc::usage, "store: cannot look up " + endpoint.host + ": " +
                                 ::gai_strerror(error) +
                                 "; check --master_addr and --rdzv_endpoint");
  }
  return {found, &::freeaddrinfo};
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

/// Closes the socket and returns -1; preserves errno.
int close_failed(int fd) {
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

/// Returns a bound socket, or -1 with errno set.
int try_bind(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // Lets "::" accept IPv4 connections, too.
  if (address.ai_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return ::bind(fd, address.ai_addr, address.ai_addrlen) == 0 ? fd : close_failed(fd);
}

/// Returns a listening socket, or -1 with errno set.
int try_listen(const addrinfo& address) {
  const int fd = try_bind(address);
  return fd < 0 || ::listen(fd, SOMAXCONN) == 0 ? fd : close_failed(fd);
}

[[noreturn]] void explain(const StoreEndpoint& endpoint, int error) {
  const std::string thing = "store at " + to_string(endpoint) + ": ";
  if (error == EADDRINUSE) {
    const auto holder = find_port_holder(endpoint.port);
    throw Error(Errc::system, thing + "port " + std::to_string(endpoint.port) + " is in use by " +
                                  holder.value_or("a process that cannot be seen from here") +
                                  "; choose another port");
  }
  if (error == EADDRNOTAVAIL) {
    throw Error(Errc::usage, thing + endpoint.host + " is not an address of this machine");
  }
  throw_system_error(thing + "cannot listen", error);
}

/// Listening sockets of a port.
struct PortSockets {
  std::set<std::string> inodes;
  bool is_own = false;  ///< one of them belongs to this process' user
};

/// Reads a table in the format of /proc/net/tcp.
void collect_sockets(const char* table, std::uint16_t port, PortSockets& sockets) {
  constexpr std::string_view kListening = "0A";
  std::ifstream lines(table);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
        inode;
    const auto colon = local.rfind(':');
    if (state != kListening || colon == std::string::npos) continue;
    unsigned local_port = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), local_port, 16);
    if (local_port != port) continue;
    sockets.inodes.insert("socket:[" + inode + "]");
    if (uid == std::to_string(::geteuid())) sockets.is_own = true;
  }
}

/// Returns the first address of the endpoint for which `open` succeeds.
Listener open_socket(const StoreEndpoint& endpoint, int (*open)(const addrinfo&)) {
  const Addresses addresses = look_up(endpoint);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    const int fd = open(*address);
    if (fd >= 0) return {.fd = fd, .family = address->ai_family, .port = bound_port(fd)};
    // A port in use is more informative than an unsupported address family.
    if (error != EADDRINUSE) error = errno;
  }
  explain(endpoint, error);
}

/// Returns nullopt if the process' descriptors are not accessible.
std::optional<bool> holds_one_of(const fs::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator entry(process / "fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    if (inodes.contains(fs::read_symlink(entry->path(), unreadable).string())) return true;
  }
  return error == std::errc::permission_denied ? std::nullopt : std::optional(false);
}

bool is_of_this_user(const fs::path& process) {
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name, real, effective;
    words >> name >> real >> effective;
    if (name == "Uid:") return effective == std::to_string(::geteuid());
  }
  return false;
}

std::string describe_process(const fs::path& process) {
  std::string name;
  std::getline(std::ifstream(process / "comm"), name);
  return "process " + process.filename().string() + " (" + name + ")";
}

}  // namespace

Listener open_listener(const StoreEndpoint& endpoint) {
  return open_socket(endpoint, &try_listen);
}

PortReservation::PortReservation(std::uint16_t port) {
  // "::" binds all addresses including IPv4; "0.0.0.0" is for machines without IPv6.
  const bool has_ipv6 = ::access("/proc/net/if_inet6", F_OK) == 0;
  const Listener bound =
      open_socket({.host = has_ipv6 ? "::" : "0.0.0.0", .port = port}, &try_bind);
  fd_ = bound.fd;
  port_ = bound.port;
}

PortReservation::~PortReservation() {
  ::close(fd_);
}

std::optional<std::string> find_port_holder(std::uint16_t port) {
  PortSockets sockets;
  collect_sockets("/proc/net/tcp", port, sockets);
  collect_sockets("/proc/net/tcp6", port, sockets);
  if (sockets.inodes.empty()) return std::nullopt;
  std::vector<std::string> hidden;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename().string();
    if (!std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    const auto holds = holds_one_of(entry->path(), sockets.inodes);
    if (holds == true) return describe_process(entry->path());
    if (!holds && sockets.is_own && is_of_this_user(entry->path())) {
      hidden.push_back(describe_process(entry->path()));
    }
  }
  if (hidden.empty() || hidden.size() > kHiddenMax) return std::nullopt;
  return join(hidden, " or ") + ", as far as can be seen";
}

}  // namespace ddprun
