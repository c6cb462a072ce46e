#include "launcher/process/tcp_connections.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/deadline.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

namespace ddprun {

namespace {

// The kernel sends parts of at most 32 KiB (netlink(7)).
constexpr std::size_t kPartBytesMax = std::size_t{32} << 10;

/// Limits the memory for a node with very many connections; further ones are ignored.
constexpr std::size_t kConnectionsMax = 16'384;

// States of a connection (enum in the kernel's tcp_states.h, which programs cannot include).
constexpr unsigned kEstablished = 1;
constexpr unsigned kSynSent = 2;

struct Request {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

/// Returns the value at the beginning of the bytes. Missing bytes at its end are 0, since older
/// kernels have shorter structures.
template <typename T>
T value_in(std::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

/// Calls `visit` with type and content of each item of netlink's format: a header that begins with
/// the length, and padding to a multiple of four.
template <typename Header, typename Length, typename Visit>
void for_each_item(std::string_view bytes, Length Header::*length, std::size_t header_bytes,
                   const Visit& visit) {
  while (bytes.size() >= header_bytes) {
    const auto header = value_in<Header>(bytes);
    const std::size_t size = header.*length;
    if (size < header_bytes || size > bytes.size()) return;
    visit(header, bytes.substr(header_bytes, size - header_bytes));
    bytes.remove_prefix(std::min(bytes.size(), (size + 3) / 4 * 4));
  }
}

constexpr IpAddress kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::ptrdiff_t kMappedBytes = 12;

IpAddress peer_address_of(const inet_diag_msg& message) {
  IpAddress address = message.idiag_family == AF_INET ? kMapped : IpAddress{};
  const std::size_t offset = message.idiag_family == AF_INET ? kMappedBytes : 0;
  std::memcpy(address.data() + offset, &message.id.idiag_dst[0], address.size() - offset);
  return address;
}

std::optional<TcpConnection> parse_connection(std::string_view content) {
  if (content.size() < sizeof(inet_diag_msg)) return std::nullopt;
  const auto message = value_in<inet_diag_msg>(content);
  std::optional<tcp_info> info;
  for_each_item(content.substr(sizeof message), &rtattr::rta_len, sizeof(rtattr),
                [&info](const rtattr& attribute, std::string_view value) {
                  if (attribute.rta_type == INET_DIAG_INFO) info = value_in<tcp_info>(value);
                });
  if (!info) return std::nullopt;
  const auto sending =
      info->tcpi_busy_time - std::min(info->tcpi_busy_time, info->tcpi_rwnd_limited);
  return TcpConnection{.inode = message.idiag_inode,
                       .peer = peer_address_of(message),
                       .port = ntohs(message.id.idiag_dport),
                       .silence = std::chrono::milliseconds(
                           message.idiag_state == kSynSent ? 0 : info->tcpi_last_ack_recv),
                       .retransmissions = info->tcpi_unacked == 0 ? 0 : info->tcpi_retransmits,
                       .sent_bytes = info->tcpi_bytes_acked,
                       .sending = std::chrono::microseconds(sending),
                       .rate = info->tcpi_delivery_rate};
}

bool request_connections(int socket, int family) {
  Request request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = static_cast<std::uint8_t>(family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = 1U << kEstablished | 1U << kSynSent;
  return ::send(socket, &request, sizeof request, 0) == sizeof request;
}

enum class Part { more, last, none };

/// Returns whether the answer ends with `part`; none if it has no further messages.
Part kind_of(std::string_view part) {
  Part kind = part.empty() ? Part::none : Part::more;
  for_each_item(part, &nlmsghdr::nlmsg_len, sizeof(nlmsghdr),
                [&kind](const nlmsghdr& header, std::string_view) {
                  if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR)
                    kind = Part::last;
                });
  return kind;
}

}  // namespace

std::vector<TcpConnection> parse_connections(std::string_view messages) {
  std::vector<TcpConnection> connections;
  for_each_item(messages, &nlmsghdr::nlmsg_len, sizeof(nlmsghdr),
                [&connections](const nlmsghdr& header, std::string_view content) {
                  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return;
                  if (auto connection = parse_connection(content))
                    connections.push_back(*connection);
                });
  return connections;
}

std::optional<IpAddress> parse_address(const std::string& text) {
  IpAddress address = kMapped;
  if (::inet_pton(AF_INET, text.c_str(), address.data() + kMappedBytes) == 1) return address;
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

StoreEndpoint peer_of(const TcpConnection& connection) {
  const auto* const address = connection.peer.data();
  const bool is_mapped = std::equal(address, address + kMappedBytes, kMapped.data());
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(is_mapped ? AF_INET : AF_INET6, is_mapped ? address + kMappedBytes : address,
              text.data(), text.size());
  return {text.data(), connection.port};
}

TcpConnections tcp_connections(const std::function<bool(const TcpConnection&)>& is_wanted) {
  TcpConnections connections;
  auto& list = connections.list;
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const auto deadline = Deadline::after(std::chrono::seconds(1));
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  if (socket.get() < 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
    return connections;
  std::string bytes;
  for (const int family : {AF_INET, AF_INET6}) {
    if (!request_connections(socket.get(), family)) return connections;
    auto part = Part::more;
    while (part == Part::more) {
      bytes.resize(kPartBytesMax);
      const auto count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
      bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
      for (const auto& connection : parse_connections(bytes)) {
        if (list.size() < kConnectionsMax && is_wanted(connection)) list.push_back(connection);
      }
      part = kind_of(bytes);
      if (part == Part::none || deadline.passed()) return connections;
    }
  }
  connections.is_complete = true;
  return connections;
}

std::set<std::uint64_t> sockets_of(pid_t pid) {
  constexpr std::string_view kHead = "socket:[";
  std::set<std::uint64_t> inodes;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/" + std::to_string(pid) + "/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry->path(), ignored);
    if (!target.starts_with(kHead)) continue;
    std::uint64_t inode = 0;
    std::from_chars(target.data() + kHead.size(), target.data() + target.size(), inode);
    inodes.insert(inode);
  }
  return inodes;
}

}  // namespace ddprun
