#include "launcher/config/config_command.hpp"

#include "launcher/cli/help_text.hpp"
#include "launcher/config/convert.hpp"
#include "launcher/config/json.hpp"
#include "launcher/config/load_config.hpp"
#include "launcher/config/schema.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun {

namespace {

using Strings = std::vector<std::string>;

constexpr const char* kConfigUsage =
    "Usage: ddprun config check FILE [options]\n"
    "           Show the values of a configuration file on this node, or the errors of the file.\n"
    "       ddprun config schema\n"
    "           Print the JSON Schema of configuration files, for editors.\n"
    "       ddprun config convert hostfile FILE\n"
    "           Print a configuration file made from a hostfile of mpirun or DeepSpeed.\n"
    "       ddprun config convert torchrun [options] [PROGRAM [arguments]]\n"
    "           Print a configuration file made from a torchrun command line.\n"
    "\n"
    "A program called config is run as ./config, or after --.";

/// Returns "name = value" with the origin in a second column, if it fits.
std::string line_of(const std::string& name, const std::string& value, const std::string& where) {
  constexpr std::size_t kColumn = 44;
  auto line = name + " = " + value;
  line.resize(std::max(line.size(), kColumn), ' ');
  return line + "  " + where + "\n";
}

std::string describe_values(const GatheredValues& values) {
  std::string text;
  for (const auto& note : values.settings.notes) text += note + "\n";
  text += "hash: " + values.settings.hash + "\n";
  for (const auto& option : option_table()) {
    const auto given = values.given.find(&option);
    if (given == values.given.end() || option.name == "config") continue;
    text += line_of(std::string(option.name), given->second.value, given->second.where);
  }
  for (const auto& change : values.settings.environment) {
    text += change.value ? "environment: " + change.name + "=" + *change.value + "\n"
                         : "environment: without " + change.name + "\n";
  }
  Strings command;
  for (const auto& word : values.command) command.push_back(json_quoted(word));
  text += command.empty() ? "no command: a program must be given\n"
                          : "command: [" + join(command, ", ") + "]\n";
  return printable(text);
}

/// Adds a summary of the run, or the problems that would prevent it, with the same texts as a run.
void describe_run(LaunchOptions options, const Strings& command, const PlanSummary& summarize,
                  ConfigAnswer& answer) {
  if (!summarize) return;
  options.needs_program = false;
  if (!command.empty()) {
    options.program = command.front();
    options.program_arguments.assign(command.begin() + 1, command.end());
  }
  const auto summary = summarize(options);
  if (const auto* problem = std::get_if<UsageProblem>(&summary)) {
    answer.problems = problem->problems;
  } else {
    answer.text += std::get<std::string>(summary);
  }
}

bool asks_for_help(const Strings& arguments) {
  return !arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h");
}

ConfigAnswer answer_of(std::variant<std::string, UsageProblem> summary) {
  if (auto* problem = std::get_if<UsageProblem>(&summary)) {
    return {.problems = std::move(problem->problems)};
  }
  return {.text = std::get<std::string>(std::move(summary))};
}

ConfigAnswer check(const Strings& rest, const EnvironmentLookup& environment,
                   const OptionSources& sources, const RunSummaries& summaries, int columns) {
  if (rest.empty() || rest[0].substr(0, 1) == "-") {
    return {.problems = {"config check: needs a file as its first argument"}};
  }
  Strings arguments = {"--config=" + rest[0]};
  arguments.insert(arguments.end(), rest.begin() + 1, rest.end());
  const auto read = read_arguments(arguments);
  if (!read.problem.empty()) return {.problems = {read.problem}};
  if (read.given.contains(find_option("help"))) return {.text = wrap_usage(kConfigUsage, columns)};
  if (read.given.contains(find_option("ssh")) && summaries.over_ssh) {
    return answer_of(summaries.over_ssh(arguments));
  }
  const auto values = gather_values(read, environment, sources);
  LaunchOptions options;
  auto problems = values.problems;
  for (auto& problem : apply_values(values, options)) problems.push_back(std::move(problem));
  if (!problems.empty()) return {.problems = std::move(problems)};
  ConfigAnswer answer{.text = describe_values(values)};
  describe_run(options, values.command, summaries.here, answer);
  answer.problems = with_origins(answer.problems, options);
  return answer;
}

ConfigAnswer answer_of(std::variant<ConvertedFile, UsageProblem> made) {
  if (auto* problem = std::get_if<UsageProblem>(&made)) {
    return {.problems = std::move(problem->problems)};
  }
  auto& file = std::get<ConvertedFile>(made);
  return {.text = std::move(file.text), .notes = std::move(file.notes)};
}

ConfigAnswer convert(const Strings& rest) {
  const auto from = rest.empty() ? "" : rest[0];
  if (from == "torchrun") return answer_of(convert_arguments({rest.begin() + 1, rest.end()}));
  if (from == "hostfile" && rest.size() == 2) {
    const auto text = read_config_text(rest[1]);
    if (const auto* problem = std::get_if<UsageProblem>(&text)) {
      return {.problems = problem->problems};
    }
    return answer_of(convert_hostfile(rest[1], std::get<std::string>(text)));
  }
  return {.problems = {"config convert: needs 'hostfile FILE' or 'torchrun [options] ...'"}};
}

}  // namespace

std::optional<ConfigAnswer> run_config_command(const Strings& arguments,
                                               const EnvironmentLookup& environment,
                                               const OptionSources& sources,
                                               const Invocation& invocation,
                                               const RunSummaries& summaries, int columns) {
  // In another compatibility mode, config is the name of a program.
  const bool is_own = invocation.mode == CompatMode::ddprun;
  if (!is_own || arguments.empty() || arguments[0] != "config") return std::nullopt;
  const auto action = arguments.size() > 1 ? arguments[1] : "";
  const Strings rest(arguments.begin() + std::min<std::ptrdiff_t>(2, std::ssize(arguments)),
                     arguments.end());
  const bool is_known = action == "check" || action == "convert" || action == "schema";
  if (asks_for_help({action}) || (is_known && asks_for_help(rest))) {
    return ConfigAnswer{.text = wrap_usage(kConfigUsage, columns)};
  }
  if (action == "check") return check(rest, environment, sources, summaries, columns);
  if (action == "convert") return convert(rest);
  if (action == "schema" && rest.empty()) return ConfigAnswer{.text = config_schema()};
  if (action == "schema") {
    return ConfigAnswer{.problems = {"config schema: takes no arguments"}};
  }
  if (action.empty()) {
    return ConfigAnswer{.problems = {"config: needs one of check, convert and schema; see 'ddprun "
                                     "config --help'; a program called config is run as "
                                     "./config"}};
  }
  const auto nearest = nearest_word(action, {"check", "convert", "schema"});
  return ConfigAnswer{.problems = {"config " + action + ": must be check, convert or schema" +
                                   (nearest.empty() ? "; a program called config is run as ./config"
                                                    : "; did you mean " + nearest + "?")}};
}

}  // namespace ddprun
