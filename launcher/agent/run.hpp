// A run as this node's agent executes it: carries out the decisions of
// membership/node_state_machine.hpp with the node's workers on one side and the coordinator on the
// other. A single node is a membership of one, whose coordinator is part of this process. Runs on
// the agent's one thread.
#pragma once

#include "launcher/agent/attempt.hpp"

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class Run {
 public:
  /// Gets the port of the store once it is known. Called once, before any other event.
  using StartNotice = std::function<void(std::uint16_t store_port)>;

  /// `surroundings` outlives this object.
  explicit Run(const AttemptSurroundings& surroundings);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  /// Returns how the run has ended: the same on all nodes unless this one left the run or lost the
  /// others. Throws Error if the only node cannot start; a later failure of the agent is a result
  /// (RunResult::agent_failed). Called once.
  boost::asio::awaitable<RunFinished> run(StartNotice on_start);

  // The following may be called at any time.

  /// Sends the signal to the workers, if there are any.
  void forward(int signal);

  /// Reports the stacks of all workers, which continue. Returns false if there are no workers.
  bool take_stacks(const std::string& reason);

  /// The first time, stops the workers in an orderly way; the run, or on several nodes this node's
  /// part in it, ends afterwards. Then kills them.
  void stop(int signal, bool is_first);

  /// Returns why the run must not be suspended; empty if it may be.
  std::string objection_to_suspension() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with its coroutines
};

}  // namespace ddprun
