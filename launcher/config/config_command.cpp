#include "launcher/config/config_command.hpp"

#include "launcher/config/convert.hpp"
#include "launcher/config/json.hpp"
#include "launcher/config/load_config.hpp"
#include "launcher/config/schema.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun {

namespace {

using Words = std::vector<std::string>;

constexpr const char* kUsage =
    "Usage: ddprun config check FILE [options]    what a file means on this node, or what is "
    "wrong\n"
    "       ddprun config schema                  the JSON Schema of such files, for editors\n"
    "       ddprun config convert hostfile FILE   a file from a hostfile of mpirun or DeepSpeed\n"
    "       ddprun config convert torchrun [options] [PROGRAM [arguments]]\n"
    "                                             a file from a command line\n"
    "Anything else called config is run as ./config, or behind --.\n";

/// "name = value", with the origin in a column of its own where that fits.
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
  Words command;
  for (const auto& word : values.command) command.push_back(json_quoted(word));
  text += command.empty() ? "no command: a program has to be given\n"
                          : "command: [" + join(command, ", ") + "]\n";
  return printable(text);
}

/// A file may be checked on a machine that is not meant to run it, so refusals are no mistakes.
std::string describe_run(LaunchOptions options, const Words& command,
                         const PlanSummary& summarize) {
  if (!summarize || command.empty()) return {};
  options.program = command.front();
  options.program_arguments.assign(command.begin() + 1, command.end());
  const auto summary = summarize(options);
  if (const auto* text = std::get_if<std::string>(&summary)) return *text;
  std::string text;
  for (const auto& problem : std::get<UsageProblem>(summary).problems) {
    text += "would be refused here: " + problem + "\n";
  }
  return printable(text);
}

ConfigAnswer check(const Words& words, const EnvironmentLookup& environment,
                   const OptionSources& sources, const PlanSummary& summarize) {
  if (words.empty() || words[0].substr(0, 1) == "-") {
    return UsageProblem{{"config check: needs a file as its first argument"}};
  }
  Words arguments = {"--config=" + words[0]};
  arguments.insert(arguments.end(), words.begin() + 1, words.end());
  const auto read = read_arguments(arguments);
  if (!read.problem.empty()) return UsageProblem{{read.problem}};
  const auto values = gather_values(read, environment, sources);
  LaunchOptions options;
  auto problems = values.problems;
  for (auto& problem : apply_values(values, options)) problems.push_back(std::move(problem));
  if (!problems.empty()) return UsageProblem{std::move(problems)};
  return describe_values(values) + describe_run(options, values.command, summarize);
}

ConfigAnswer answer_of(std::variant<std::string, UsageProblem> made) {
  if (auto* problem = std::get_if<UsageProblem>(&made)) return std::move(*problem);
  return std::move(std::get<std::string>(made));
}

ConfigAnswer convert(const Words& words) {
  const auto from = words.empty() ? "" : words[0];
  if (from == "torchrun") return answer_of(convert_arguments({words.begin() + 1, words.end()}));
  if (from == "hostfile" && words.size() == 2) {
    const auto text = read_config_text(words[1]);
    if (const auto* problem = std::get_if<UsageProblem>(&text)) return *problem;
    return answer_of(convert_hostfile(words[1], std::get<std::string>(text)));
  }
  return UsageProblem{{"config convert: needs 'hostfile FILE' or 'torchrun [options] ...'"}};
}

}  // namespace

std::optional<ConfigAnswer> run_config_command(const Words& arguments,
                                               const EnvironmentLookup& environment,
                                               const OptionSources& sources,
                                               const Invocation& invocation,
                                               const PlanSummary& summarize) {
  // Under another launcher's name the word is a program as any other.
  const bool is_own = invocation.persona == Persona::ddprun;
  if (!is_own || arguments.empty() || arguments[0] != "config") return std::nullopt;
  const auto action = arguments.size() > 1 ? arguments[1] : "";
  const Words rest(arguments.begin() + std::min<std::ptrdiff_t>(2, std::ssize(arguments)),
                   arguments.end());
  if (action == "check") return check(rest, environment, sources, summarize);
  if (action == "convert") return convert(rest);
  if (action == "schema" && rest.empty()) return config_schema();
  if (action == "--help" || action == "-h") return std::string(kUsage);
  if (action.empty()) {
    return UsageProblem{
        {"config: needs one of check, convert and schema; see 'ddprun config "
         "--help'; a program called config is run as ./config"}};
  }
  const auto nearest = nearest_word(action, {"check", "convert", "schema"});
  return UsageProblem{
      {"config " + action + ": is none of check, convert and schema" +
       (nearest.empty() || nearest == action ? "; a program called config is run as ./config"
                                             : "; did you mean " + nearest + "?")}};
}

}  // namespace ddprun
