// What the nodes of a start over ssh would refuse, as far as it can be seen from here: asked before
// anything is started, also for those who only ask (--dry_run, config check), so that all hear the
// same. Whether a program or a GPU is there, only the nodes themselves can see.
#pragma once

#include "launcher/config/config_command.hpp"
#include "launcher/ssh/ssh_plan.hpp"

#include <string>
#include <vector>

namespace ddprun::ssh {

struct NodeCheck {
  EnvironmentLookup environment;  ///< of this machine
  SchedulerReader scheduler{};    ///< the same
  PlanSummary check{};            ///< for the node that this machine is; empty: it is not looked at
  bool needs_program = true;      ///< false: there may be none
};

/// A line for each problem, with the names of its nodes if not all have it.
std::vector<std::string> problems_of_nodes(const ConfigFile& file, const SshPlan& plan,
                                           const NodeCheck& how);

}  // namespace ddprun::ssh
