// The check of this node before its workers start (--preflight): starts ddprun-preflight instead of
// each worker, under the same conditions. With several nodes, the check precedes the rendezvous.
// Runs on the agent's thread.
#pragma once

#include "launcher/agent/attempt.hpp"

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>

namespace ddprun {

class Preflight {
 public:
  /// The plan contains the program. `context` outlives this object.
  explicit Preflight(const AttemptContext& context);
  ~Preflight();

  /// Returns the end of the run if the workers must not be started, otherwise nullopt. Called once.
  boost::asio::awaitable<std::optional<RunFinished>> run();

  /// Ends the check; the run is then interrupted by `signal`, unless an earlier signal has
  /// interrupted it.
  void stop(int signal);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
