// A run that looks at its node first (--preflight): starts ddprun-preflight in place of each
// worker, as the workers will be started, and begins the run if all is in order. With other nodes
// the look comes before this one joins them. Runs on the agent's one thread.
#pragma once

#include "launcher/agent/attempt.hpp"
#include "launcher/agent/run.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace ddprun {

class PreflightRun : public Run {
 public:
  /// The plan names the program. `surroundings` outlives this object.
  PreflightRun(const AttemptSurroundings& surroundings, std::unique_ptr<Run> run);
  ~PreflightRun() override;

  boost::asio::awaitable<RunFinished> run(StartNotice on_start) override;
  void forward(int signal) override;
  bool take_stacks(const std::string& reason) override;
  void stop(int signal, bool is_first) override;
  std::string objection_to_suspension() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
