// Listening TCP sockets, reserved ports, and the process that holds a port. Plain system calls;
// only the name look-up blocks.
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

/// Binds and listens. Throws Error{Errc::usage} if the host is not an address of this machine,
/// Error{Errc::system} if the port is unavailable, naming its holder if known.
Listener open_listener(const StoreEndpoint& endpoint);

/// Reserves a port on all addresses of this machine for another process. The kernel does not assign
/// it to other sockets; a process that binds it explicitly with SO_REUSEADDR, like PyTorch's
/// stores, can listen there.
class PortReservation {
 public:
  /// `port` 0: chosen by the kernel. Throws Error{Errc::system} if the port is unavailable, naming
  /// its holder if known.
  explicit PortReservation(std::uint16_t port);
  PortReservation(const PortReservation&) = delete;
  PortReservation& operator=(const PortReservation&) = delete;
  ~PortReservation();

  std::uint16_t port() const { return port_; }

 private:
  int fd_ = -1;  ///< bound, but not listening
  std::uint16_t port_ = 0;
};

/// Returns the process that listens on `port`, as "process 4711 (redis-server)"; or the candidates
/// if it must be one of this user's processes that hide their descriptors, such as agents with a
/// secret. Returns nullopt if the process belongs to another user or container.
std::optional<std::string> find_port_holder(std::uint16_t port);

}  // namespace ddprun
