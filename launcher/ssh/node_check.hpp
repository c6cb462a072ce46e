// Checks the options of all nodes on the starting machine before any node is started; --dry_run and
// config check use the same check. Only the nodes can check programs and devices.
#pragma once

#include "launcher/config/config_command.hpp"
#include "launcher/ssh/ssh_plan.hpp"

#include <string>
#include <vector>

namespace ddprun::ssh {

struct NodeCheck {
  EnvironmentLookup environment;  ///< of this machine
  SchedulerReader scheduler{};    ///< of this machine
  PlanSummary check{};            ///< complete check of this machine's own node; empty: none
  bool needs_program = true;      ///< false: the program may be missing
};

/// Returns a line for each problem, with the names of its nodes unless all nodes have it.
std::vector<std::string> problems_of_nodes(const ConfigFile& file, const SshPlan& plan,
                                           const NodeCheck& how);

}  // namespace ddprun::ssh
