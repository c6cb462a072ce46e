// One node's part of a run: executes the decisions of membership/node_state_machine.hpp with the
// node's workers and its connection to the coordinator. A single-node run is a membership of one
// with a coordinator in this process. Runs on the agent's thread.
#pragma once

#include "launcher/agent/attempt.hpp"
#include "rendezvous/base/problem.hpp"

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class Run {
 public:
  /// Receives the port of the store. Called once, before any other event.
  using StartNotice = std::function<void(std::uint16_t store_port)>;

  /// `context` outlives this object.
  explicit Run(const AttemptContext& context);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  /// Runs this node's part. Returns the run's result, which is equal on all nodes except those that
  /// left or lost the connection. Throws Error if a single-node run cannot start; later failures of
  /// the agent are results (RunResult::agent_failed). Called once.
  boost::asio::awaitable<RunFinished> run(StartNotice on_start);

  // The following functions may be called at any time.

  /// Sends the signal to the workers, if there are any.
  void forward(int signal);

  /// Returns false while the node has no workers, such as while it waits for other nodes.
  bool has_workers() const;

  /// Reports the stacks of all workers, which continue. Returns false if there are no workers.
  bool take_stacks(const std::string& reason);

  /// The first call stops the workers gracefully and ends the run, or this node's part of it with
  /// several nodes. Later calls kill the workers.
  void stop(int signal, bool is_first);

  /// Returns the reason why the run must not be suspended; nullopt if it may be.
  Problem objection_to_suspension() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with its coroutines
};

}  // namespace ddprun
