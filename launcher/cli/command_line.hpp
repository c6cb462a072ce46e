// Parses arguments and environment into LaunchOptions, by argparse's rules like torchrun: options
// end at the program's name, and long options may be abbreviated unambiguously. Precedence, highest
// first: arguments, PET_ variables, configuration file, defaults.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/invocation.hpp"
#include "launcher/cli/launch_options.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Output of --help, --version or --print_completion for standard output. The exit code is 0.
struct HelpText {
  std::string text;
};

using CommandLine = std::variant<LaunchOptions, HelpText, UsageProblem>;

/// Parses a command line. `arguments` exclude ddprun's name, which is in `invocation`. `columns` is
/// the width of the help text. Does not throw on invalid input.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const EnvironmentLookup& environment, int columns = 80,
                               const Invocation& invocation = {},
                               const OptionSources& sources = {});

/// Returns the options from the arguments, the environment and the other sources. The program may
/// be missing unless `needs_program`. The arguments must not contain options such as --help.
std::variant<LaunchOptions, UsageProblem> gather_options(const ParsedArguments& parsed,
                                                         const EnvironmentLookup& environment,
                                                         const Invocation& invocation,
                                                         const OptionSources& sources,
                                                         bool needs_program = true);

/// Returns the problems as lines for standard error, each with `name` as its prefix.
std::string describe(const UsageProblem& problem, const std::string& name = "ddprun");

}  // namespace ddprun
