// TCP connections of processes, from the kernel's socket diagnostics (sock_diag(7)). A connection
// whose data is not acknowledged shows that packets to its peer are lost, or that the peer's
// machine is down, which neither side is notified of. Its counters show how fast it sends.
#pragma once

#include <ddprun/store.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// In network byte order; an IPv4 address is mapped into IPv6.
using IpAddress = std::array<unsigned char, 16>;

/// Parses a numeric address.
std::optional<IpAddress> parse_address(const std::string& text);

/// A connection that is established or being established.
struct TcpConnection {
  std::uint64_t inode = 0;  ///< of its socket
  IpAddress peer{};
  std::uint16_t port = 0;                ///< of the peer
  std::chrono::milliseconds silence{0};  ///< since the last acknowledgement; 0: none yet
  int retransmissions = 0;               ///< of the oldest packet; 0: it has been acknowledged
  std::uint64_t sent_bytes = 0;          ///< acknowledged
  /// Time for which data was to be sent or acknowledged, without that for which the receiver had no
  /// room.
  std::chrono::microseconds sending{0};
  /// Bytes per second, last measured by the kernel while enough data was to be sent, or higher than
  /// the measurement before; 0: not measured yet.
  std::uint64_t rate = 0;

  bool operator==(const TcpConnection&) const = default;
};

/// Returns the numeric address and port of the peer.
StoreEndpoint peer_of(const TcpConnection& connection);

struct TcpConnections {
  std::vector<TcpConnection> list;  ///< at most 16,384
  bool is_complete = false;         ///< the kernel has listed all; otherwise some may be missing
};

/// Returns those connections in this network namespace that are wanted. Blocks for at most 2 s,
/// usually some milliseconds.
TcpConnections tcp_connections(const std::function<bool(const TcpConnection&)>& is_wanted);

/// Parses messages of the kernel's answer. Skips malformed ones.
std::vector<TcpConnection> parse_connections(std::string_view messages);

/// Returns the inodes of the sockets of a process; empty if they cannot be read.
std::set<std::uint64_t> sockets_of(pid_t pid);

}  // namespace ddprun
