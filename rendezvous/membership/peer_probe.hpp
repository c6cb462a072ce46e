// The agents' side of a probe: a socket that shows that this agent can be reached, and attempts to
// connect to those of others. No byte is exchanged. Runs on the executor's one thread.
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

/// Accepts connections and closes them at once.
class ProbeListener {
 public:
  /// Listens at `local_address`, by which this agent has reached the coordinator. Does not where
  /// that is of no use to other machines (a loopback or link-local address), or fails.
  ProbeListener(const boost::asio::any_io_executor& executor, const std::string& local_address);
  ~ProbeListener();

  /// Port 0: it does not listen.
  ProbeAddress address() const;

 private:
  std::unique_ptr<Acceptor> acceptor_;
};

/// Connects to all peers at the same time and returns the indices of those that are not reached in
/// time, ascending. A peer with port 0, or one to which this machine lacks the means to connect
/// (descriptors, memory, its kind of address), counts as reached; so does one that has not answered
/// when this process runs again after it was stopped.
boost::asio::awaitable<std::vector<std::uint32_t>> find_unreachable(std::vector<ProbeAddress> peers,
                                                                    Deadline deadline);

}  // namespace ddprun::membership
