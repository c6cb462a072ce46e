#include "launcher/ssh/ssh_request.hpp"

#include "launcher/config/load_config.hpp"
#include "launcher/plan/host_facts.hpp"
#include "launcher/plan/resolve_program.hpp"
#include "launcher/process/process_start.hpp"
#include "launcher/process/worker_environment.hpp"
#include "launcher/report/console_sink.hpp"
#include "launcher/ssh/node_check.hpp"
#include "rendezvous/base/random_bytes.hpp"

#include <filesystem>
#include <unistd.h>

namespace ddprun::ssh {

namespace {

using Result = std::variant<SshRequest, UsageProblem>;

std::vector<std::string> names_of_variables() {
  std::vector<std::string> names;
  for (const auto& variable : own_environment()) {
    names.push_back(variable.substr(0, variable.find('=')));
  }
  return names;
}

/// Size of the secret of 'ddprun keygen'.
constexpr std::size_t kSecretBytes = 32;

/// No worker prints such a mark by chance.
constexpr std::size_t kMarkBytes = 8;

StarterFacts gather_facts(const EnvironmentLookup& environment) {
  const auto host = gather_host_facts(environment);
  std::error_code ignored;
  return {.ssh = find_tool("ssh", host),
          .program = std::filesystem::read_symlink("/proc/self/exe", ignored).string(),
          .folder = host.working_directory.string(),
          .own_node = std::nullopt,
          .variables = names_of_variables(),
          .environment = environment,
          .make_secret =
              [] {
                make_memory_private();
                return hexadecimal(random_bytes(kSecretBytes));
              },
          .mark = "\x1e" + hexadecimal(random_bytes(kMarkBytes)),
          .columns = terminal_columns(STDERR_FILENO, kColumnsWithoutTerminal)};
}

Result read(const ParsedArguments& parsed, const EnvironmentLookup& environment,
            const PlanSummary& check, bool needs_program) {
  const auto name = value_of(parsed.given, "config");
  if (!name) {
    return UsageProblem{{"--ssh: needs --config; name a file that has \"nodes\""}};
  }
  const auto text = read_config_text(name->value);
  if (const auto* problem = std::get_if<UsageProblem>(&text)) return *problem;
  const auto file = read_config(name->value, std::get<std::string>(text));
  if (const auto* problem = std::get_if<UsageProblem>(&file)) return *problem;
  auto facts = gather_facts(environment);
  // This machine need not be one of the nodes.
  auto clues = gather_node_clues([](const std::string&) { return std::nullopt; });
  clues.node_name = value_of(parsed.given, "node_name");
  const auto own = find_node(std::get<ConfigFile>(file), clues);
  if (const auto* found = std::get_if<FoundNode>(&own)) {
    facts.own_node = found->index;
  } else if (clues.node_name) {
    return std::get<UsageProblem>(own);
  }
  auto plan = plan_ssh(std::get<ConfigFile>(file), std::get<std::string>(text), parsed, facts);
  if (const auto* problem = std::get_if<UsageProblem>(&plan)) return *problem;
  auto problems = problems_of_nodes(std::get<ConfigFile>(file), std::get<SshPlan>(plan),
                                    {.environment = environment,
                                     .scheduler = scheduler_reader(environment),
                                     .check = check,
                                     .needs_program = needs_program});
  if (!problems.empty()) return UsageProblem{std::move(problems)};
  return SshRequest{.plan = std::get<SshPlan>(std::move(plan)),
                    .is_dry = parsed.given.contains(find_option("dry_run"))};
}

}  // namespace

std::optional<Result> read_ssh_request(const std::vector<std::string>& arguments,
                                       const EnvironmentLookup& environment,
                                       const Invocation& invocation, const PlanSummary& check,
                                       bool needs_program) {
  const auto parsed = read_arguments(arguments);
  if (!parsed.given.contains(find_option("ssh"))) return std::nullopt;
  for (const char* name : {"help", "version", "print_completion"}) {
    if (parsed.given.contains(find_option(name))) return std::nullopt;
  }
  if (invocation.mode != CompatMode::ddprun) {
    return UsageProblem{{"--ssh: not available as " + invocation.name}};
  }
  return read(parsed, environment, check, needs_program);
}

}  // namespace ddprun::ssh
