// Connects to the coordinator and looks up addresses. Runs on the executor's single thread; names
// are resolved on other threads, so nothing blocks.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>

#include <boost/asio/awaitable.hpp>

#include <string>
#include <vector>

namespace ddprun::membership {

struct ConnectResult {
  int fd = -1;          ///< non-blocking socket, owned by the caller; -1: failure
  std::string problem;  ///< reason of a failure; empty on success
};

/// Tries each address of the endpoint once.
boost::asio::awaitable<ConnectResult> connect_to(StoreEndpoint endpoint, Deadline deadline);

/// Numeric addresses of a host, for comparison.
struct HostAddresses {
  std::vector<std::string> addresses;
  std::string problem;
};
boost::asio::awaitable<HostAddresses> addresses_of(std::string host, Deadline deadline);

/// Returns the addresses of this machine's interfaces.
std::vector<std::string> own_addresses();

/// Returns true for 127.0.0.0/8 and ::1.
bool is_loopback(const std::string& address);

}  // namespace ddprun::membership
