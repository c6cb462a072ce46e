// Check of a worker's ranks and numbers of workers. Pure; thread-safe.
#pragma once

#include <ddprun/worker_env.hpp>

#include <string>

namespace ddprun {

/// Names of the values in messages.
struct RankLabels {
  const char* rank = "rank";
  const char* size = "world_size";
  const char* local_rank = "local_rank";
  const char* local_size = "local_world_size";
};

/// Returns what is wrong with the ranks and sizes of `env`, separated by "; "; empty if they are
/// valid.
std::string rank_problems(const WorkerEnv& env, const RankLabels& labels = {});

}  // namespace ddprun
