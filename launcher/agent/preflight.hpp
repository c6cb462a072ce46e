// The check of this node before its workers start (--preflight): starts ddprun-preflight in place
// of each worker, as the workers will be started. On several nodes the check precedes the
// rendezvous. Runs on the agent's one thread.
#pragma once

#include "launcher/agent/attempt.hpp"

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>

namespace ddprun {

class Preflight {
 public:
  /// The plan names the program. `surroundings` outlives this object.
  explicit Preflight(const AttemptSurroundings& surroundings);
  ~Preflight();

  /// Returns the end of the run if the workers must not be started, and nothing if they may be.
  /// Called once.
  boost::asio::awaitable<std::optional<RunFinished>> run();

  /// Ends the check; the run is then interrupted by `signal`, unless it was before by another one.
  void stop(int signal);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
