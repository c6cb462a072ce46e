#include "rendezvous/store/connection_table.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

namespace ddprun {

namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

constexpr std::size_t kWordDigits = 8;
constexpr std::size_t kPortDigits = 4;

// Positions of the fields of a row.
constexpr std::size_t kOwnField = 1;
constexpr std::size_t kPeerField = 2;
constexpr std::size_t kUserField = 7;
constexpr std::size_t kInodeField = 9;
constexpr std::size_t kFields = 10;

template <typename Number>
bool parse_whole(std::string_view text, Number& number, int base) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

/// Parses text such as "0100007F:1F90": each 32 bits of the address are a number of this machine.
std::optional<ConnectionEnd> parse_end(std::string_view text) {
  const std::size_t digits = text.find(':');
  std::array<std::uint32_t, sizeof(in6_addr) / sizeof(std::uint32_t)> words{};
  if (digits != kWordDigits && digits != kWordDigits * words.size()) return std::nullopt;
  if (text.size() != digits + 1 + kPortDigits) return std::nullopt;
  for (std::size_t i = 0; i * kWordDigits < digits; ++i) {
    if (!parse_whole(text.substr(i * kWordDigits, kWordDigits), words[i], 16)) return std::nullopt;
  }
  std::uint16_t port = 0;
  if (!parse_whole(text.substr(digits + 1), port, 16)) return std::nullopt;
  const auto bytes = std::bit_cast<std::array<std::uint8_t, sizeof(in6_addr)>>(words);
  return connection_end(std::span(bytes).first(digits / 2), port);
}

std::string_view next_field(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const auto field = line.substr(0, line.find(' '));
  line.remove_prefix(field.size());
  return field;
}

/// Ignores scopes, which the table does not contain.
bool is_same(const ConnectionEnd& shown, ConnectionEnd wanted) {
  wanted.scope = 0;
  return shown == wanted;
}

/// A socket for both families has its IPv4 connections in tcp6.
constexpr std::array kTables = {"/proc/net/tcp", "/proc/net/tcp6"};

}  // namespace

ConnectionEnd connection_end(std::span<const std::uint8_t> address, std::uint16_t port) {
  ConnectionEnd end{.port = port};
  if (address.size() == sizeof(in6_addr)) {
    if (std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), address.begin())) {
      address = address.subspan(kMappedPrefix.size());
    } else {
      end.family = AF_INET6;
    }
  }
  std::copy(address.begin(), address.end(), end.address.begin());
  return end;
}

std::optional<ConnectionEnd> connection_end(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &address, sizeof ipv4);
    std::array<std::uint8_t, sizeof(in_addr)> bytes{};
    std::memcpy(bytes.data(), &ipv4.sin_addr, bytes.size());
    return connection_end(bytes, ntohs(ipv4.sin_port));
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 ipv6{};
  std::memcpy(&ipv6, &address, sizeof ipv6);
  ConnectionEnd end = connection_end(ipv6.sin6_addr.s6_addr, ntohs(ipv6.sin6_port));
  if (end.family == AF_INET6) end.scope = ipv6.sin6_scope_id;
  return end;
}

std::optional<ConnectionRow> parse_connection_row(std::string_view line) {
  std::array<std::string_view, kFields> fields;
  for (auto& field : fields) field = next_field(line);
  const auto own = parse_end(fields[kOwnField]);
  const auto peer = parse_end(fields[kPeerField]);
  std::uint64_t inode = 0;
  ConnectionRow row;
  if (!own || !peer || !parse_whole(fields[kUserField], row.user, 10) ||
      !parse_whole(fields[kInodeField], inode, 10))
    return std::nullopt;
  row.own = *own;
  row.peer = *peer;
  row.has_owner = inode != 0;
  return row;
}

ConnectionSearch find_connection(const ConnectionEnd& own, const ConnectionEnd& peer) {
  ConnectionSearch search;
  for (const char* name : kTables) {
    errno = 0;
    std::ifstream table(name);
    if (!table) {
      // tcp6 is absent without IPv6.
      if (name == kTables.front()) search.error = errno != 0 ? errno : EIO;
      continue;
    }
    for (std::string line; std::getline(table, line);) {
      const auto row = parse_connection_row(line);
      if (!row || !is_same(row->own, own) || !is_same(row->peer, peer)) continue;
      return {.row = row};
    }
  }
  return search;
}

}  // namespace ddprun
