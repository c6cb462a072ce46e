// The run of a node that shares it with no other: hosts the store, and makes one attempt after the
// other for as long as restart_policy.hpp says so. Runs on the agent's one thread.
#pragma once

#include "launcher/agent/attempt.hpp"
#include "launcher/agent/run.hpp"

#include <memory>
#include <string>

namespace ddprun {

class LoneRun : public Run {
 public:
  /// The plan has no nodes. `surroundings` outlives this object.
  explicit LoneRun(const AttemptSurroundings& surroundings);
  ~LoneRun() override;

  boost::asio::awaitable<RunFinished> run(StartNotice on_start) override;
  void forward(int signal) override;
  bool take_stacks(const std::string& reason) override;
  void stop(int signal, bool is_first) override;
  std::string objection_to_suspension() const override { return {}; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
