// A listening TCP socket, a port kept for somebody else to listen at, and who is in the way if it
// cannot be had. Plain system calls; blocks only for the look-up of a name.
#pragma once

#include <ddprun/store.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

struct Listener {
  int fd = -1;  ///< non-blocking, close-on-exec; the caller closes it
  int family = 0;
  std::uint16_t port = 0;
};

/// Binds and listens. Throws Error{Errc::usage} if the host is no address of this machine,
/// Error{Errc::system} if the port cannot be had, naming its holder where that is known.
Listener open_listener(const StoreEndpoint& endpoint);

/// Keeps a port, on all addresses of this machine, for another process to listen at. Nobody gets it
/// from the kernel by chance meanwhile, neither for a connection nor by asking for any port; who
/// asks for this very one and has set SO_REUSEADDR, as PyTorch's stores do, can listen there.
class PortReservation {
 public:
  /// 0: the kernel chooses. Throws Error{Errc::system} if the port cannot be had, naming its holder
  /// where that is known.
  explicit PortReservation(std::uint16_t port);
  PortReservation(const PortReservation&) = delete;
  PortReservation& operator=(const PortReservation&) = delete;
  ~PortReservation();

  std::uint16_t port() const { return port_; }

 private:
  int fd_ = -1;  ///< bound, but not listening
  std::uint16_t port_ = 0;
};

/// The process that listens on `port`, as "process 4711 (redis-server)". If it must be one of this
/// user's processes that hide their descriptors, as agents with a secret do, those are named.
/// Nothing if /proc does not tell: the process is another user's, or in another container.
std::optional<std::string> find_port_holder(std::uint16_t port);

}  // namespace ddprun
