// Option values as text with their origins: arguments, environment variables, configuration files
// and schedulers. Values are not checked when they are read. Pure functions.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/cli/option_table.hpp"
#include <ddprun/worker_env.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// An option's value as text, with its origin for messages.
struct GivenValue {
  std::string value;
  std::string where;  ///< "--max_restarts=x", "PET_MAX_RESTARTS=x", "job.json:4:3: restart.x"

  bool operator==(const GivenValue&) const = default;
};

using GivenValues = std::map<const OptionEntry*, GivenValue>;

/// A command line, split by argparse's rules.
struct ParsedArguments {
  GivenValues given;
  std::vector<std::string> rest;  ///< the program and its arguments
  std::string problem;            ///< first invalid argument; empty: none
};

ParsedArguments read_arguments(const std::vector<std::string>& arguments);

/// Returns the first of the entry's environment variables that is set. Ignores empty variables,
/// because scripts leave unused variables empty.
std::optional<GivenValue> value_from_variables(const OptionEntry& entry,
                                               const EnvironmentLookup& environment);

/// Returns a plan's problems with the origins of options instead of their names, unless the options
/// are arguments: "PET_NNODES=1:2: ..." for "--nnodes=1:2: ...".
std::vector<std::string> with_origins(const std::vector<std::string>& problems,
                                      const LaunchOptions& options);

/// Returns the value of the option with this name, or nullopt.
std::optional<GivenValue> value_of(const GivenValues& values, const std::string& name);

/// An unusable command line, configuration or environment, with one line per problem. The exit code
/// is 2.
struct UsageProblem {
  std::vector<std::string> problems;
};

/// Values from a configuration file or a scheduler for this node.
struct ConfigValues {
  GivenValues options;
  std::vector<std::string> command;
  ConfigSettings settings;
};

/// The file to load and the values that override it.
struct ConfigRequest {
  std::string file;
  GivenValues given;
};

using ConfigLoader = std::function<std::variant<ConfigValues, UsageProblem>(const ConfigRequest&)>;

/// Returns the values from the scheduler that started this process. Values that are already given
/// override them.
using SchedulerReader = std::function<std::variant<ConfigValues, UsageProblem>(const GivenValues&)>;

/// Further sources of values. Empty functions are not called.
struct OptionSources {
  ConfigLoader config{};
  SchedulerReader scheduler{};
};

/// The effective values of the options that were given.
struct GatheredValues {
  GivenValues given;
  std::vector<std::string> command;  ///< the program and its arguments; empty: none
  ConfigSettings settings;
  std::vector<std::string> problems;  ///< problems of the file
};

/// Collects values. Arguments override variables, variables override the --config file, and the
/// file overrides the scheduler.
GatheredValues gather_values(const ParsedArguments& parsed, const EnvironmentLookup& environment,
                             const OptionSources& sources);

/// Stores the values in `options`. Returns a line for each invalid value.
std::vector<std::string> apply_values(const GatheredValues& values, LaunchOptions& options);

}  // namespace ddprun
