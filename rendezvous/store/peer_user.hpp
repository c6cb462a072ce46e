// The user at the other end of a TCP connection, as the kernel knows it. Linux only. One thread.
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

/// Whether clients of this user are served; empty: users are not checked.
using UserCheck = std::function<bool(uid_t user)>;

/// True for root and for the effective user of this process.
bool is_root_or_own_user(uid_t user);

/// The peer is on this machine.
struct LocalUser {
  uid_t id = 0;
};

/// The peer's address is not one of this machine.
struct OtherMachine {};

/// The peer's address is one of this machine, or may be, and the user is not known.
struct UnknownUser {
  std::string reason;
  bool has_left = false;  ///< the client has closed its socket
};

using PeerUser = std::variant<LocalUser, OtherMachine, UnknownUser>;

class PeerUsers {
 public:
  /// Opens a netlink socket for each of the two questions that of() asks. Does not throw: where
  /// INET_DIAG is not available, of() reads /proc.
  PeerUsers();

  /// Returns the user of the process that made the peer's socket. `fd` is a connected TCP socket.
  /// A socket that has been closed, or that is in another network namespace, has no known user; nor
  /// has one whose user may have no number in this user namespace.
  /// Does not block; takes some microseconds, or as long as find_connection() without INET_DIAG.
  PeerUser of(int fd);

 private:
  /// The kernel's answer about one socket.
  struct Socket {
    enum class Kind : std::uint8_t {
      owned,       ///< by `user`
      closed,      ///< by its process; the kernel goes on with it
      missing,     ///< not in this network namespace
      unanswered,  ///< for `error`
    } kind = Kind::unanswered;
    uid_t user = 0;
    int error = 0;
  };

  Socket find(const ConnectionEnd& own, const ConnectionEnd& peer);
  Socket ask_diag(const ConnectionEnd& own, const ConnectionEnd& peer);
  /// Whether the address is one of this machine's; nothing: the kernel does not tell.
  std::optional<bool> is_local(const ConnectionEnd& end);
  /// Whether the kernel shows this number for all users that this user namespace lacks.
  bool stands_for_others(uid_t user);

  UniqueFd diag_;                   ///< NETLINK_SOCK_DIAG; -1: not available
  UniqueFd route_;                  ///< NETLINK_ROUTE; -1: not available
  bool has_diag_answered_ = false;  ///< INET_DIAG has found a socket
  std::uint32_t sequence_ = 0;      ///< of the last request
  /// Which number that is: none if the namespace lacks no user; empty: not determined yet.
  std::optional<std::optional<uid_t>> overflow_user_;
};

}  // namespace ddprun
