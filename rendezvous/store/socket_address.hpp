// The addresses of a connected socket's two ends, as people write them. Plain system calls.
#pragma once

#include <string>

namespace ddprun {

// Numeric and without the port, 127.0.0.1 for ::ffff:127.0.0.1; empty if there is none any more.
std::string local_address(int fd);
std::string peer_address(int fd);

/// The family of the socket, which may still have IPv4 peers.
bool is_ipv6(int fd);

}  // namespace ddprun
