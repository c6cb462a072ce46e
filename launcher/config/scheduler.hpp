// Derives option values from the variables of Slurm or Kubernetes, if the scheduler starts one
// ddprun on each node. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// First port of the rendezvous under Slurm. The range is below Linux's ephemeral ports (from
/// 32768) and excludes PyTorch's defaults (29400, 29500).
inline constexpr int kSlurmPortFirst = 15'000;
inline constexpr int kSlurmPorts = 10'000;

struct SchedulerClues {
  EnvironmentLookup environment;
  GivenValues given;      ///< values from arguments, variables and a file
  std::string host_name;  ///< name of this machine, with its domain if known
};

/// Values of options that were not given, and a note that names the variables. Empty outside of
/// schedulers, on a single node, and if the rendezvous is given.
using SchedulerValues = std::variant<ConfigValues, UsageProblem>;

/// Uses the variables that srun sets in each task of a step.
SchedulerValues values_from_slurm(const SchedulerClues& clues);

/// Uses the pod's index of an Indexed Job, and PET_ variables.
SchedulerValues values_from_kubernetes(const SchedulerClues& clues);

/// Uses the detected scheduler.
SchedulerValues values_from_scheduler(const SchedulerClues& clues);

}  // namespace ddprun
