// Addresses of a connected socket as text. Plain system calls.
#pragma once

#include <string>

namespace ddprun {

// Return numeric addresses without port, 127.0.0.1 for ::ffff:127.0.0.1; empty if not connected.
std::string local_address(int fd);
std::string peer_address(int fd);

/// Returns true for an IPv6 socket, which may have IPv4 peers.
bool is_ipv6(int fd);

}  // namespace ddprun
