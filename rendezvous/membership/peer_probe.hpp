// Agent side of a probe: a listening socket that shows that this agent is reachable, and connection
// attempts to other agents. No data is exchanged. Runs on the executor's single thread.
#pragma once

#include "rendezvous/membership/messages.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {
class Acceptor;
}

namespace ddprun::membership {

/// Accepts connections and closes them immediately.
class ProbeListener {
 public:
  /// Listens on `local_address`, which this agent uses to reach the coordinator. Does not listen if
  /// other machines cannot use the address (loopback or link-local), or on failure.
  ProbeListener(const boost::asio::any_io_executor& executor, const std::string& local_address);
  ~ProbeListener();

  /// Port 0 if it does not listen.
  ProbeAddress address() const;

 private:
  std::unique_ptr<Acceptor> acceptor_;
};

/// Connects to all peers concurrently and returns the indices of those not reached in time,
/// ascending. These peers count as reached: those with port 0, those for which this machine lacks
/// resources (descriptors, memory, the address family), and those that have not answered when this
/// process continues after it was stopped.
boost::asio::awaitable<std::vector<std::uint32_t>> find_unreachable(std::vector<ProbeAddress> peers,
                                                                    Deadline deadline);

}  // namespace ddprun::membership
