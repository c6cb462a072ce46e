// `ddprun config ...` checks and creates configuration files, and starts nothing. `config` is a
// command only as the first argument; run a program of this name as ./config.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/invocation.hpp"

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

struct ConfigAnswer {
  std::string text{};                   ///< text for standard output
  std::vector<std::string> notes{};     ///< lines for standard error
  std::vector<std::string> problems{};  ///< lines for standard error; if any, exit code 2

  bool operator==(const ConfigAnswer&) const = default;
};

/// Returns a summary of the run on this machine, or the problems that would prevent it.
using PlanSummary = std::function<std::variant<std::string, UsageProblem>(const LaunchOptions&)>;

/// Returns such a summary for all nodes that these arguments, including --ssh, would start.
using StartSummary =
    std::function<std::variant<std::string, UsageProblem>(const std::vector<std::string>&)>;

/// Functions that return summaries. Empty functions are not called.
struct RunSummaries {
  PlanSummary here{};
  StartSummary over_ssh{};
};

/// Runs the command. Returns nullopt if the arguments do not call it. `columns` is the width of the
/// help.
std::optional<ConfigAnswer> run_config_command(const std::vector<std::string>& arguments,
                                               const EnvironmentLookup& environment,
                                               const OptionSources& sources,
                                               const Invocation& invocation,
                                               const RunSummaries& summaries = {},
                                               int columns = 80);

}  // namespace ddprun
