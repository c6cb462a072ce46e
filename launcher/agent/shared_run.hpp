// A run that this node shares with others: carries out what membership/node_part.hpp decides, with
// the node's workers on one side and the connection to the coordinator on the other; and hosts the
// coordinator and the store if that is this node's part. Runs on the agent's one thread.
#pragma once

#include "launcher/agent/attempt.hpp"

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class SharedRun {
 public:
  /// The plan has nodes. `surroundings` outlives this object.
  explicit SharedRun(const AttemptSurroundings& surroundings);
  ~SharedRun();

  /// Returns how the run has ended, the same on all nodes unless this one left it or lost the
  /// others. `on_start` is called once it is known where the store is. Throws Error if this node
  /// is to host the store and cannot.
  boost::asio::awaitable<RunFinished> run(std::function<void()> on_start);

  void forward(int signal);
  bool take_stacks(const std::string& reason);

  /// The first time: leaves the run after stopping the workers in an orderly way; then kills them.
  void stop(int signal, bool is_first);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with its coroutines
};

}  // namespace ddprun
