// Parses arguments and environment into LaunchOptions, by argparse's rules as in torchrun: options
// end at the name of the program, and long options may be abbreviated unambiguously. Precedence,
// highest first: arguments, PET_ variables, configuration file, defaults.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/invocation.hpp"
#include "launcher/cli/launch_options.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Output of --help, --version or --print_completion, for standard output. Exit code 0.
struct HelpText {
  std::string text;
};

using CommandLine = std::variant<LaunchOptions, HelpText, UsageProblem>;

/// `arguments` exclude the name of ddprun, which is in `invocation`. `columns` is the width of the
/// help text. Does not throw on invalid input.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const EnvironmentLookup& environment, int columns = 80,
                               const Invocation& invocation = {},
                               const OptionSources& sources = {});

/// Returns the options from the words, the environment and the other sources. Without
/// `needs_program` the program may be missing. The words must not contain options such as --help.
std::variant<LaunchOptions, UsageProblem> gather_options(const ArgumentWords& words,
                                                         const EnvironmentLookup& environment,
                                                         const Invocation& invocation,
                                                         const OptionSources& sources,
                                                         bool needs_program = true);

/// Returns the problems as lines for standard error, each with `name` as its prefix.
std::string describe(const UsageProblem& problem, const std::string& name = "ddprun");

}  // namespace ddprun
