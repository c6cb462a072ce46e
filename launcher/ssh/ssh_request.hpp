// `ddprun --config FILE --ssh ...` from its arguments to a plan: reads the file and looks at this
// machine.
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
  bool is_dry = false;  ///< to be described only
};

/// Nothing if these arguments do not ask for it. `check` is asked about the node that this machine
/// is; without `needs_program` there may be none.
std::optional<std::variant<SshRequest, UsageProblem>> read_ssh_request(
    const std::vector<std::string>& arguments, const EnvironmentLookup& environment,
    const Invocation& invocation, const PlanSummary& check, bool needs_program = true);

}  // namespace ddprun::ssh
