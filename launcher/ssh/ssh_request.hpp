// Turns the arguments of `ddprun --config FILE --ssh ...` into a plan: reads the file and the facts
// of this machine.
#pragma once

#include "launcher/cli/invocation.hpp"
#include "launcher/config/config_command.hpp"
#include "launcher/ssh/ssh_plan.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::ssh {

struct SshRequest {
  SshPlan plan;
  bool is_dry = false;  ///< --dry_run
};

/// Returns nullopt unless the arguments request a start over ssh. `check` checks the node that is
/// this machine; without `needs_program` the program may be missing.
std::optional<std::variant<SshRequest, UsageProblem>> read_ssh_request(
    const std::vector<std::string>& arguments, const EnvironmentLookup& environment,
    const Invocation& invocation, const PlanSummary& check, bool needs_program = true);

}  // namespace ddprun::ssh
