#include "worker_runtime/backends/host/handover.hpp"

#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <utility>

namespace ddprun::host {

namespace {

// All ranks of a node connect at about the same time; further connects wait.
constexpr int kBacklog = 128;
// Time limit for a connection that sends nothing.
constexpr auto kHelloTimeout = std::chrono::seconds(2);

// Random bytes of the name, so that it cannot be guessed.
constexpr std::size_t kNameBytes = 16;

struct Address {
  sockaddr_un value{};
  socklen_t bytes = 0;

  /// A leading zero byte makes the name an abstract one.
  explicit Address(const std::string& name) {
    value.sun_family = AF_UNIX;
    if (name.empty() || name.size() >= sizeof value.sun_path)
      throw Error(Errc::protocol,
                  "group memory: \"" + name + "\" is not a valid name of a rank's socket");
    std::memcpy(value.sun_path + 1, name.data(), name.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

UniqueFd open_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_system_error("group memory: unix socket", errno);
  return UniqueFd(fd);
}

/// Returns false if the deadline passes first.
bool wait_readable(int fd, Deadline deadline) {
  while (true) {
    pollfd poll_fd{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&poll_fd, 1, deadline.remaining_poll_milliseconds());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_system_error("group memory: poll", errno);
    if (deadline.passed()) return false;
  }
}

/// Waits while the listener's backlog is full.
void connect(int fd, const Address& address, const std::string& name, Deadline deadline) {
  int result = 0;
  do {
    // 0 would mean no limit.
    const auto left =
        std::max<Deadline::Duration>(deadline.remaining(), std::chrono::milliseconds(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(left - seconds);
    const timeval limit{.tv_sec = seconds.count(), .tv_usec = rest.count()};
    if (!deadline.is_never()) ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    result = ::connect(fd, address.get(), address.bytes);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno != EAGAIN) throw_system_error("process group: connecting to the socket " + name, errno);
  throw Error(Errc::timeout, "process group: the node's first rank does not accept connections " +
                                 deadline.describe());
}

bool is_same_user(int fd) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 &&
         credentials.uid == ::geteuid();
}

struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};

bool send_descriptor(int socket, int descriptor) {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

std::string list(const std::set<int>& ranks, const RankNames& names) {
  return names.list({ranks.begin(), ranks.end()});
}

}  // namespace

HandoverServer::HandoverServer() : name_("ddprun-" + hexadecimal(random_bytes(kNameBytes))) {
  UniqueFd socket = open_socket();
  const Address address(name_);
  if (::bind(socket.get(), address.get(), address.bytes) != 0)
    throw_system_error("group memory: bind to abstract socket " + name_, errno);
  if (::listen(socket.get(), kBacklog) != 0)
    throw_system_error("group memory: listen on abstract socket " + name_, errno);
  listener_ = std::move(socket);
}

void HandoverServer::serve(int descriptor, int first, int last, const RankNames& names,
                           Deadline deadline) {
  std::set<int> missing;
  for (int rank = first; rank <= last; ++rank) missing.insert(rank);
  while (!missing.empty()) {
    if (!wait_readable(listener_.get(), deadline)) {
      throw Error(Errc::timeout, "process group: rank(s) " + list(missing, names) +
                                     " did not come " + deadline.describe());
    }
    const UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.get() < 0 && errno != EINTR && errno != ECONNABORTED) {
      throw_system_error("process group: accepting rank(s) " + list(missing, names), errno);
    }
    if (peer.get() < 0 || !is_same_user(peer.get())) continue;
    std::int32_t rank = -1;
    const Deadline hello =
        Deadline::after(std::min<Deadline::Duration>(deadline.remaining(), kHelloTimeout));
    if (!wait_readable(peer.get(), hello)) continue;
    if (::recv(peer.get(), &rank, sizeof rank, 0) != ssize_t{sizeof rank}) continue;
    if (missing.contains(rank) && send_descriptor(peer.get(), descriptor)) missing.erase(rank);
  }
}

int receive_descriptor(const std::string& name, int rank, Deadline deadline) {
  const UniqueFd socket = open_socket();
  const Address address(name);
  connect(socket.get(), address, name, deadline);
  if (!is_same_user(socket.get()))
    throw Error(Errc::protocol, "process group: the socket " + name + " belongs to another user");
  const auto own = static_cast<std::int32_t>(rank);
  if (::send(socket.get(), &own, sizeof own, MSG_NOSIGNAL) != ssize_t{sizeof own})
    throw_system_error("process group: speaking to the node's first rank", errno);
  if (!wait_readable(socket.get(), deadline)) {
    throw Error(
        Errc::timeout,
        "process group: the node's first rank did not hand over its memory " + deadline.describe());
  }
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t received = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = received == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    throw Error(Errc::remote,
                "process group: the node's first rank closed the connection without handing "
                "over its memory (has another worker the same RANK, or did it end?)");
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

}  // namespace ddprun::host
