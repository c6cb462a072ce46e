// `ddprun config ...`: looks at configuration files and makes them, and starts nothing. The word
// stands for this only as the very first argument; a program of that name is ./config, or comes
// behind an option or --.
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
  std::string text{};                   ///< for standard output
  std::vector<std::string> notes{};     ///< for standard error; nothing is wrong
  std::vector<std::string> problems{};  ///< the same; exit code 2 if there are any

  bool operator==(const ConfigAnswer&) const = default;
};

/// What would be run with these options on this machine: lines, or why it would be refused.
using PlanSummary = std::function<std::variant<std::string, UsageProblem>(const LaunchOptions&)>;

/// The same for all nodes that these arguments, --ssh among them, would start.
using StartSummary =
    std::function<std::variant<std::string, UsageProblem>(const std::vector<std::string>&)>;

/// What is empty is not asked.
struct RunSummaries {
  PlanSummary here{};
  StartSummary over_ssh{};
};

/// Nothing if these arguments are no such command.
std::optional<ConfigAnswer> run_config_command(const std::vector<std::string>& arguments,
                                               const EnvironmentLookup& environment,
                                               const OptionSources& sources,
                                               const Invocation& invocation,
                                               const RunSummaries& summaries = {});

}  // namespace ddprun
