// The user of a TCP connection's peer, as reported by the kernel. Linux only. Not thread-safe.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/store/connection_table.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <variant>

namespace ddprun {

/// Returns true if clients of this user are served; empty: users are not checked.
using UserCheck = std::function<bool(uid_t user)>;

/// Returns true for root and for the effective user of this process.
bool is_root_or_own_user(uid_t user);

/// The peer is on this machine.
struct LocalUser {
  uid_t id = 0;
};

/// The peer's address is not one of this machine.
struct OtherMachine {};

/// The peer is or may be on this machine, but its user is unknown.
struct UnknownUser {
  std::string reason;
  bool has_left = false;  ///< the client has closed its socket
};

using PeerUser = std::variant<LocalUser, OtherMachine, UnknownUser>;

class PeerUsers {
 public:
  /// Opens the netlink sockets that of() uses. Does not throw: without INET_DIAG, of() reads /proc.
  PeerUsers();

  /// Returns the user of the process that created the peer's socket. `fd` is a connected TCP
  /// socket. The user is unknown if the socket is closed or in another network namespace, or if the
  /// user may be unmapped in this user namespace. Does not block; takes some microseconds, or as
  /// long as find_connection() without INET_DIAG.
  PeerUser of(int fd);

 private:
  /// The kernel's answer about one socket.
  struct Socket {
    enum class Kind : std::uint8_t {
      owned,       ///< owned by `user`
      closed,      ///< closed by its process; the kernel still finishes the connection
      missing,     ///< not in this network namespace
      unanswered,  ///< the request failed with `error`
    } kind = Kind::unanswered;
    uid_t user = 0;
    int error = 0;
  };

  Socket find(const ConnectionEnd& own, const ConnectionEnd& peer);
  Socket query_diag(const ConnectionEnd& own, const ConnectionEnd& peer);
  /// Returns whether the address is local; nullopt if unknown.
  std::optional<bool> is_local(const ConnectionEnd& end);
  /// Returns true if the kernel reports this id for all unmapped users.
  bool stands_for_others(uid_t user);

  UniqueFd diag_;                   ///< NETLINK_SOCK_DIAG; -1: not available
  UniqueFd route_;                  ///< NETLINK_ROUTE; -1: not available
  bool has_diag_answered_ = false;  ///< INET_DIAG has found a socket
  std::uint32_t sequence_ = 0;      ///< number of the last request
  /// Overflow id; inner nullopt: all users are mapped; outer nullopt: not determined yet.
  std::optional<std::optional<uid_t>> overflow_user_;
};

}  // namespace ddprun
