// Values that options were given, and where: by arguments, environment variables or a configuration
// file. Reading them does not check them. Pure functions.
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

/// An option's value as text and how to name its origin in a message.
struct GivenValue {
  std::string value;
  std::string where;  ///< "--max_restarts=x", "PET_MAX_RESTARTS=x", "job.json:4:3: restart.x"

  bool operator==(const GivenValue&) const = default;
};

using GivenValues = std::map<const OptionEntry*, GivenValue>;

/// The words of a command line, by argparse's rules.
struct ArgumentWords {
  GivenValues given;
  std::vector<std::string> rest;  ///< the program and its arguments
  std::string problem;            ///< what ended the reading too early; empty: nothing
};

ArgumentWords read_arguments(const std::vector<std::string>& arguments);

/// The first of the entry's environment variables that is set. An empty one counts as not set:
/// that is how scripts leave what they do not use.
std::optional<GivenValue> value_from_variables(const OptionEntry& entry,
                                               const EnvironmentLookup& environment);

/// The problems of a plan made with these options. Each begins with the option's origin in place of
/// its name if no argument gave it: "PET_NNODES=1:2: ..." for "--nnodes=1:2: ...".
std::vector<std::string> with_origins(const std::vector<std::string>& problems,
                                      const LaunchOptions& options);

/// The value of the option with this name, or nothing.
std::optional<GivenValue> value_of(const GivenValues& values, const std::string& name);

/// What the operator asked for cannot be done: a line for each problem. Exit code 2.
struct UsageProblem {
  std::vector<std::string> problems;
};

/// What a configuration file gives to this node.
struct ConfigValues {
  GivenValues options;
  std::vector<std::string> command;
  FromConfig settings;
};

/// Which file, and what arguments and variables say, as it bears on what the file means.
struct ConfigRequest {
  std::string file;
  GivenValues given;
};

using ConfigLoader = std::function<std::variant<ConfigValues, UsageProblem>(const ConfigRequest&)>;

/// What the scheduler that started this process says, given what is known already.
using SchedulerReader = std::function<std::variant<ConfigValues, UsageProblem>(const GivenValues&)>;

/// Where values come from beside arguments and variables; what is empty is not asked.
struct OptionSources {
  ConfigLoader config{};
  SchedulerReader scheduler{};
};

/// The value that counts for each option that was given any.
struct GatheredValues {
  GivenValues given;
  std::vector<std::string> command;  ///< the program and its arguments; empty: none was given
  FromConfig settings;
  std::vector<std::string> problems;  ///< of the file
};

/// An argument beats a variable, a variable the file, the file the scheduler. The file is read if
/// there is a --config.
GatheredValues gather_values(const ArgumentWords& words, const EnvironmentLookup& environment,
                             const OptionSources& sources);

/// Stores the values; returns a line for each that is wrong.
std::vector<std::string> apply_values(const GatheredValues& values, LaunchOptions& options);

}  // namespace ddprun
