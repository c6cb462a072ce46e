// Checks this node before its workers start (--preflight): starts ddprun-preflight in place of each
// worker under the same conditions. With several nodes, this precedes the rendezvous. Runs on the
// agent's thread.
#pragma once

#include "launcher/agent/attempt.hpp"

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>

namespace ddprun {

class Preflight {
 public:
  /// The plan must contain the preflight program. `context` outlives this object.
  explicit Preflight(const AttemptContext& context);
  ~Preflight();

  /// Runs the check once. Returns the end of the run if no workers may start, otherwise nullopt.
  boost::asio::awaitable<std::optional<RunFinished>> run();

  /// Ends the check. The run is then interrupted by `signal`, unless an earlier signal has
  /// interrupted it.
  void stop(int signal);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
