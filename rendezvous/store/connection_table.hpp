// The kernel's table of TCP connections as /proc/net/tcp and tcp6 show it.
#pragma once

#include <array>
#include <cstdint>
#include <netinet/in.h>
#include <optional>
#include <span>
#include <string_view>
#include <sys/socket.h>
#include <sys/types.h>

namespace ddprun {

/// One end of a TCP connection. An IPv4-mapped IPv6 address is an IPv4 address here.
struct ConnectionEnd {
  sa_family_t family = AF_INET;            ///< AF_INET or AF_INET6
  std::array<std::uint8_t, 16> address{};  ///< as on the wire; an IPv4 address takes four bytes
  std::uint16_t port = 0;                  ///< in the byte order of this machine
  std::uint32_t scope = 0;                 ///< interface of a link-local address; 0: none

  bool operator==(const ConnectionEnd&) const = default;
};

/// `address` has four or 16 bytes, as on the wire; `port` is in the byte order of this machine.
ConnectionEnd connection_end(std::span<const std::uint8_t> address, std::uint16_t port);

/// Returns nullopt for other address families.
std::optional<ConnectionEnd> connection_end(const sockaddr_storage& address);

/// One row of the table: local end, remote end and user of a socket.
struct ConnectionRow {
  ConnectionEnd own;
  ConnectionEnd peer;
  uid_t user = 0;
  bool has_owner = false;  ///< false: closed, and `user` is invalid if 0
};

/// Parses a line of /proc/net/tcp or tcp6. Returns nullopt for the table's header and for malformed
/// text.
std::optional<ConnectionRow> parse_connection_row(std::string_view line);

/// The result of a search of the table.
struct ConnectionSearch {
  std::optional<ConnectionRow> row;
  int error = 0;  ///< errno if the table cannot be read
};

/// Reads the table until it finds the socket with these ends. Takes about a millisecond for 10,000
/// connections.
ConnectionSearch find_connection(const ConnectionEnd& own, const ConnectionEnd& peer);

}  // namespace ddprun
