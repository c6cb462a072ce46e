// What Slurm or Kubernetes says about the nodes of this run, as values of options: where such a
// scheduler starts one ddprun on each node, nothing has to be written. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// The ports at which runs under Slurm meet: below those that Linux gives to clients (32768 and
/// up) and away from PyTorch's own defaults (29400, 29500).
inline constexpr int kSlurmPortFirst = 15'000;
inline constexpr int kSlurmPorts = 10'000;

struct SchedulerClues {
  EnvironmentLookup environment;
  GivenValues given;      ///< by arguments, variables and a configuration file
  std::string host_name;  ///< of this machine, with its domain where that is known
};

/// What follows for options that were not given, and a line for the operator that says from which
/// variables. Empty outside of schedulers, where one node was allocated, and where the operator
/// has said how the nodes find each other.
using SchedulerValues = std::variant<ConfigValues, UsageProblem>;

/// By the variables that srun gives to each task of a step.
SchedulerValues values_from_slurm(const SchedulerClues& clues);

/// By the index that Kubernetes gives to each pod of an Indexed Job, and PET_ variables.
SchedulerValues values_from_kubernetes(const SchedulerClues& clues);

/// Of the one that is there.
SchedulerValues values_from_scheduler(const SchedulerClues& clues);

}  // namespace ddprun
