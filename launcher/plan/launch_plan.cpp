#include "launcher/plan/launch_plan.hpp"

#include <algorithm>

namespace ddprun {

membership::RestartSettings restart_settings(const LaunchOptions& options) {
  return {.max_restarts = options.max_restarts, .window = options.restart_window};
}

bool has_stream_files(const LaunchPlan& plan) {
  return std::any_of(plan.workers.begin(), plan.workers.end(), [](const WorkerPlan& worker) {
    return worker.standard_output != StreamTarget::console ||
           worker.standard_error != StreamTarget::console;
  });
}

bool is_output_shown(const LaunchPlan& plan, const WorkerPlan& worker, int rank) {
  const auto& ranks = plan.options.ranks_filter;
  return worker.is_shown &&
         (ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end());
}

}  // namespace ddprun
