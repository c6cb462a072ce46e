// From the arguments and the environment to LaunchOptions, by argparse's rules, which torchrun's
// users know: options end at the program's name, abbreviations of long options work while they are
// unambiguous, an argument beats a PET_ variable, a variable beats a configuration file, a file
// beats the default.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/invocation.hpp"
#include "launcher/cli/launch_options.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// --help or --version: the text to print on standard output before ending with 0.
struct HelpText {
  std::string text;
};

using CommandLine = std::variant<LaunchOptions, HelpText, UsageProblem>;

/// `arguments` without ddprun's own name, which is in `invocation`; `columns` is the width for the
/// help text. Never throws on account of what it reads.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const EnvironmentLookup& environment, int columns = 80,
                               const Invocation& invocation = {},
                               const OptionSources& sources = {});

/// What these words, the variables and the other sources ask for. Without `needs_program` there may
/// be none. The words hold no question like --help.
std::variant<LaunchOptions, UsageProblem> gather_options(const ArgumentWords& words,
                                                         const EnvironmentLookup& environment,
                                                         const Invocation& invocation,
                                                         const OptionSources& sources,
                                                         bool needs_program = true);

/// The problems as lines for standard error, each behind the `name` that was typed.
std::string describe(const UsageProblem& problem, const std::string& name = "ddprun");

}  // namespace ddprun
