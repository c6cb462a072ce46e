#include "rendezvous/store/peer_user.hpp"

#include "rendezvous/base/error_text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <span>
#include <unistd.h>

namespace ddprun {

namespace {

/// The kernel's DEFAULT_OVERFLOWUID.
constexpr uid_t kUsualOverflowUser = 65'534;

/// Buffer for one answer of about 100 bytes.
constexpr std::size_t kAnswerBytes = 4096;

std::size_t address_bytes(sa_family_t family) {
  return family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);
}

UniqueFd open_netlink(int protocol) {
  return UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
}

struct DiagRequest {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

struct RouteRequest {
  nlmsghdr header{};
  rtmsg body{};
  std::array<char, RTA_SPACE(sizeof(in6_addr)) + RTA_SPACE(sizeof(std::uint32_t))> attributes{};
};

/// A socket for both families has IPv6 addresses even if it is connected by IPv4.
bool is_connected_to(const inet_diag_msg& socket, ConnectionEnd peer) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&socket.id.idiag_dst[0]);
  const std::span address(bytes, address_bytes(socket.idiag_family));
  peer.scope = 0;
  return connection_end(address, ntohs(socket.id.idiag_dport)) == peer;
}

/// A netlink answer: its type and body.
struct NetlinkAnswer {
  int error = 0;  ///< errno; 0: there is a body
  std::uint16_t type = 0;
  std::array<char, kAnswerBytes> buffer;
  std::span<const char> body{};

  /// Copies the beginning of the body; returns false if the body is shorter.
  template <typename T>
  bool read(T& into) const {
    if (body.size() < sizeof into) return false;
    std::memcpy(&into, body.data(), sizeof into);
    return true;
  }
};

/// The kernel has put the answer into the socket before sendto() returns.
void query(int fd, const void* request, std::size_t bytes, std::uint32_t sequence,
           NetlinkAnswer& answer) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const auto* address = reinterpret_cast<const sockaddr*>(&kernel);
  if (::sendto(fd, request, bytes, MSG_DONTWAIT, address, sizeof kernel) < 0) {
    answer.error = errno;
    return;
  }
  while (true) {
    const ssize_t received =
        ::recv(fd, answer.buffer.data(), answer.buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (received < 0 && errno == EINTR) continue;
    nlmsghdr header{};
    const auto length = received < 0 ? 0 : static_cast<std::size_t>(received);
    if (length < sizeof header || length > answer.buffer.size()) {
      answer.error = received < 0 ? errno : EBADMSG;
      return;
    }
    std::memcpy(&header, answer.buffer.data(), sizeof header);
    if (header.nlmsg_seq != sequence) continue;  // late answer to an earlier request
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > length) {
      answer.error = EBADMSG;
      return;
    }
    answer.type = header.nlmsg_type;
    answer.body = std::span(answer.buffer).subspan(NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
    nlmsgerr failure{};
    if (header.nlmsg_type == NLMSG_ERROR)
      answer.error = answer.read(failure) && failure.error != 0 ? -failure.error : EBADMSG;
    return;
  }
}

void add_attribute(RouteRequest& request, std::uint16_t type, const void* data, std::size_t bytes) {
  rtattr attribute{};
  attribute.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(bytes));
  attribute.rta_type = type;
  auto* begin = reinterpret_cast<char*>(&request) + NLMSG_ALIGN(request.header.nlmsg_len);
  std::memcpy(begin, &attribute, sizeof attribute);
  std::memcpy(begin + RTA_LENGTH(0), data, bytes);
  request.header.nlmsg_len =
      static_cast<std::uint32_t>(NLMSG_ALIGN(request.header.nlmsg_len) + RTA_LENGTH(bytes));
}

/// Returns the ends of a connected socket; nullopt if it has none.
std::optional<ConnectionEnd> end_of(int fd, int (*address_of)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (address_of(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;
  return connection_end(address);
}

/// Returns the ID that the kernel reports for users that this user namespace lacks; nullopt if it
/// has all users.
std::optional<uid_t> overflow_user() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t users = 0;
  for (std::uint64_t here = 0, outside = 0, count = 0; map >> here >> outside >> count;) {
    users += count;
  }
  if (users >= std::numeric_limits<uid_t>::max()) return std::nullopt;
  uid_t user = kUsualOverflowUser;
  std::ifstream("/proc/sys/kernel/overflowuid") >> user;
  return user;
}

}  // namespace

bool is_root_or_own_user(uid_t user) {
  return user == 0 || user == ::geteuid();
}

PeerUsers::PeerUsers()
    : diag_(open_netlink(NETLINK_SOCK_DIAG)), route_(open_netlink(NETLINK_ROUTE)) {}

PeerUser PeerUsers::of(int fd) {
  const auto peer = end_of(fd, &::getpeername);
  const auto own = end_of(fd, &::getsockname);
  if (!peer || !own) return UnknownUser{.reason = "the connection has ended", .has_left = true};
  const Socket socket = find(*peer, *own);
  if (socket.kind == Socket::Kind::owned && stands_for_others(socket.user)) {
    return UnknownUser{"user " + std::to_string(socket.user) +
                       " stands for all users that are not mapped in this user namespace"};
  }
  if (socket.kind == Socket::Kind::owned) return LocalUser{socket.user};
  if (socket.kind == Socket::Kind::closed)
    return UnknownUser{.reason = "its socket has been closed", .has_left = true};
  // The kernel may hide sockets, but not routes.
  const auto is_here = is_local(*peer);
  if (is_here && !*is_here) return OtherMachine{};
  if (socket.kind == Socket::Kind::missing)
    return UnknownUser{"its socket has been closed or is in another network namespace"};
  return UnknownUser{"neither INET_DIAG nor /proc/net/tcp reports it: " + error_text(socket.error)};
}

bool PeerUsers::stands_for_others(uid_t user) {
  if (is_root_or_own_user(user)) return false;
  if (!overflow_user_) overflow_user_ = overflow_user();
  return user == *overflow_user_;
}

PeerUsers::Socket PeerUsers::find(const ConnectionEnd& own, const ConnectionEnd& peer) {
  using Kind = Socket::Kind;
  Socket socket = query_diag(own, peer);
  const bool is_found = socket.kind == Kind::owned || socket.kind == Kind::closed;
  if (is_found) has_diag_answered_ = true;
  // A kernel without INET_DIAG answers as if there were no such socket.
  if (socket.kind == Kind::missing && !has_diag_answered_) {
    const auto other_end = query_diag(peer, own).kind;
    has_diag_answered_ = other_end == Kind::owned || other_end == Kind::closed;
    if (!has_diag_answered_) socket.kind = Kind::unanswered;
  }
  if (socket.kind != Kind::unanswered) return socket;
  const auto search = find_connection(own, peer);
  if (search.error != 0) return {.error = search.error};
  if (!search.row) return {.kind = Kind::missing};
  return {.kind = search.row->has_owner ? Kind::owned : Kind::closed, .user = search.row->user};
}

PeerUsers::Socket PeerUsers::query_diag(const ConnectionEnd& own, const ConnectionEnd& peer) {
  using Kind = Socket::Kind;
  if (diag_.get() < 0) return {.error = EAFNOSUPPORT};
  DiagRequest request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_seq = ++sequence_;
  request.body.sdiag_family = static_cast<std::uint8_t>(own.family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~std::uint32_t{0};
  auto& id = request.body.id;
  id.idiag_sport = htons(own.port);
  id.idiag_dport = htons(peer.port);
  std::memcpy(&id.idiag_src[0], own.address.data(), address_bytes(own.family));
  std::memcpy(&id.idiag_dst[0], peer.address.data(), address_bytes(peer.family));
  id.idiag_if = peer.scope;
  std::fill(std::begin(id.idiag_cookie), std::end(id.idiag_cookie), INET_DIAG_NOCOOKIE);
  NetlinkAnswer answer;
  query(diag_.get(), &request, sizeof request, sequence_, answer);
  if (answer.error == ENOENT) return {.kind = Kind::missing};
  if (answer.error != 0) return {.error = answer.error};
  inet_diag_msg found{};
  if (answer.type != SOCK_DIAG_BY_FAMILY || !answer.read(found)) return {.error = EBADMSG};
  // If the connection does not exist, the kernel answers with a socket that listens at the port.
  if (!is_connected_to(found, peer)) return {.kind = Kind::missing};
  // Some kernels report the user of a closed socket, others 0.
  const bool is_owned = found.idiag_inode != 0 || found.idiag_uid != 0;
  return {.kind = is_owned ? Kind::owned : Kind::closed, .user = found.idiag_uid};
}

std::optional<bool> PeerUsers::is_local(const ConnectionEnd& end) {
  if (route_.get() < 0) return std::nullopt;
  const std::size_t bytes = address_bytes(end.family);
  RouteRequest request;
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.body);
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_seq = ++sequence_;
  request.body.rtm_family = static_cast<std::uint8_t>(end.family);
  request.body.rtm_dst_len = static_cast<std::uint8_t>(bytes * 8);
  add_attribute(request, RTA_DST, end.address.data(), bytes);
  if (end.scope != 0) add_attribute(request, RTA_OIF, &end.scope, sizeof end.scope);
  NetlinkAnswer answer;
  query(route_.get(), &request, request.header.nlmsg_len, sequence_, answer);
  // The address has no route, so it cannot be this machine's.
  if (answer.error == ENETUNREACH || answer.error == EHOSTUNREACH) return false;
  rtmsg route{};
  if (answer.error != 0 || answer.type != RTM_NEWROUTE || !answer.read(route)) return std::nullopt;
  return route.rtm_type == RTN_LOCAL;
}

}  // namespace ddprun
