// From the plan and the facts of an attempt to the processes to start. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/worker_group.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace ddprun {

/// What an attempt adds to the plan.
struct AttemptFacts {
  int attempt = 0;
  std::uint16_t store_port = 0;                    ///< of the agent's store
  std::optional<std::uint16_t> worker_store_port;  ///< if the workers host a store of their own
  int control_page_fd = -1;
  std::vector<std::filesystem::path> worker_folders;  ///< by local rank
};

std::vector<WorkerSpec> make_worker_specs(const LaunchPlan& plan, const AttemptFacts& facts);

}  // namespace ddprun
