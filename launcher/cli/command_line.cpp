#include "launcher/cli/command_line.hpp"

#include "launcher/cli/completions.hpp"
#include "launcher/cli/help_text.hpp"
#include "launcher/cli/option_table.hpp"
#include "launcher/cli/option_values.hpp"
#include "rendezvous/base/text.hpp"

#include <utility>

namespace ddprun {

namespace {

/// `name`: the command to be completed.
CommandLine completion_for(const GivenValue& shell, const std::string& name) {
  const auto word = parse_word(shell.value, {"bash", "zsh"});
  if (const auto* problem = std::get_if<ValueProblem>(&word)) {
    return UsageProblem{{shell.where + ": " + problem->text}};
  }
  return HelpText{shell.value == "bash" ? bash_completion(name) : zsh_completion(name)};
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const EnvironmentLookup& environment, int columns,
                               const Invocation& invocation, const OptionSources& sources) {
  const auto parsed = read_arguments(arguments);
  if (parsed.given.contains(find_option("help"))) return HelpText{help_text(columns, invocation)};
  if (parsed.given.contains(find_option("version"))) return HelpText{version_text(invocation)};
  if (const auto shell = value_of(parsed.given, "print_completion")) {
    return completion_for(*shell, invocation.name);
  }
  auto options = gather_options(parsed, environment, invocation, sources);
  if (auto* problem = std::get_if<UsageProblem>(&options)) return std::move(*problem);
  return std::get<LaunchOptions>(std::move(options));
}

std::variant<LaunchOptions, UsageProblem> gather_options(const ParsedArguments& parsed,
                                                         const EnvironmentLookup& environment,
                                                         const Invocation& invocation,
                                                         const OptionSources& sources,
                                                         bool needs_program) {
  const auto values = gather_values(parsed, environment, sources);
  LaunchOptions options;
  UsageProblem usage{values.problems};
  for (auto& problem : apply_values(values, options)) usage.problems.push_back(std::move(problem));
  if (!parsed.problem.empty()) {
    usage.problems.push_back(parsed.problem);
  } else if (values.command.empty() && needs_program && usage.problems.empty()) {
    usage.problems.push_back("no program given: " + invocation.name +
                             " [options] PROGRAM [arguments]");
  }
  if (auto problem = apply_compat_mode(options, invocation.mode)) {
    usage.problems.push_back(std::move(*problem));
  }
  if (!usage.problems.empty()) return usage;
  options.needs_program = needs_program;
  if (values.command.empty()) return options;
  options.program = values.command.front();
  options.program_arguments.assign(values.command.begin() + 1, values.command.end());
  return options;
}

std::string describe(const UsageProblem& problem, const std::string& name) {
  std::string text;
  for (const auto& line : problem.problems) text += name + ": " + printable(line) + "\n";
  return text + "Try '" + name + " --help'.\n";
}

}  // namespace ddprun
