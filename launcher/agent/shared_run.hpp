// A run that this node shares with others: carries out what membership/node_part.hpp decides, with
// the node's workers on one side and the connection to the coordinator on the other; and hosts the
// coordinator and the store if that is this node's part. Runs on the agent's one thread.
#pragma once

#include "launcher/agent/attempt.hpp"
#include "launcher/agent/run.hpp"

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>

namespace ddprun {

class SharedRun : public Run {
 public:
  /// The plan has nodes. `surroundings` outlives this object.
  explicit SharedRun(const AttemptSurroundings& surroundings);
  ~SharedRun() override;

  /// Returns how the run has ended, the same on all nodes unless this one left it or lost the
  /// others.
  boost::asio::awaitable<RunFinished> run(StartNotice on_start) override;

  void forward(int signal) override;
  bool take_stacks(const std::string& reason) override;

  /// The first time, the node leaves the run after stopping its workers.
  void stop(int signal, bool is_first) override;

  std::string objection_to_suspension() const override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with its coroutines
};

}  // namespace ddprun
