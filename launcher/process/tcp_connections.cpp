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

StoreEndpoint peer_of(const inet_diag_msg& message) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto* const address = &message.id.idiag_dst[0];
  if (::inet_ntop(message.idiag_family, address, text.data(), text.size()) == nullptr) return {};
  std::string host = text.data();
  constexpr std::string_view kMapped = "::ffff:";
  if (host.starts_with(kMapped) && host.find('.') != std::string::npos)
    host.erase(0, kMapped.size());
  return {host, ntohs(message.id.idiag_dport)};
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
                       .peer = peer_of(message),
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

/// Returns true if `part` has the end of the answer, or an error.
bool is_last(std::string_view part) {
  bool is_end = part.empty();
  for_each_item(part, &nlmsghdr::nlmsg_len, sizeof(nlmsghdr),
                [&is_end](const nlmsghdr& header, std::string_view) {
                  is_end |= header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR;
                });
  return is_end;
}

}  // namespace

std::vector<TcpConnection> parse_connections(std::string_view messages) {
  std::vector<TcpConnection> connections;
  for_each_item(messages, &nlmsghdr::nlmsg_len, sizeof(nlmsghdr),
                [&connections](const nlmsghdr& header, std::string_view content) {
                  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return;
                  if (auto connection = parse_connection(content))
                    connections.push_back(std::move(*connection));
                });
  return connections;
}

std::vector<TcpConnection> tcp_connections() {
  std::vector<TcpConnection> connections;
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const auto deadline = Deadline::after(std::chrono::seconds(1));
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  if (socket.get() < 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
    return connections;
  std::string part;
  for (const int family : {AF_INET, AF_INET6}) {
    if (!request_connections(socket.get(), family)) continue;
    do {
      part.resize(kPartBytesMax);
      const auto count = ::recv(socket.get(), part.data(), part.size(), 0);
      part.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
      const auto found = parse_connections(part);
      connections.insert(connections.end(), found.begin(), found.end());
      if (deadline.passed()) return connections;
    } while (!is_last(part));
  }
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
