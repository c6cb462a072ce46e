// Carries out what coordination.hpp decides: keeps the connections of a run's agents, hears them
// and tells them. One of the run's agents has it beside its own work; it is the single writer of
// the run's membership. Runs on the executor's one thread.
#pragma once

#include "rendezvous/membership/coordination.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <string_view>

namespace ddprun::membership {

class Coordinator {
 public:
  /// `clear_store` empties the workers' store before each round. `log` gets what operators should
  /// know of peers that misbehave.
  Coordinator(boost::asio::any_io_executor executor, Settings settings,
              std::function<void()> clear_store, Log log);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();  ///< closes all connections

  /// Takes over a connection of which these bytes, the greeting first, have been read.
  void admit(int fd, std::string_view bytes);

  /// Returns when the run has its verdict and the agents have taken leave, or had time to.
  boost::asio::awaitable<void> wait_until_over();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines that read connections
};

}  // namespace ddprun::membership
