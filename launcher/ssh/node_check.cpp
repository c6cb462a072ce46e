#include "launcher/ssh/node_check.hpp"

#include "launcher/cli/command_line.hpp"
#include "launcher/config/find_node.hpp"
#include "launcher/config/resolve_config.hpp"
#include "launcher/plan/make_plan.hpp"
#include "launcher/process/memory_file.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::ssh {

namespace {

/// Problems in the order in which they were found, each with its nodes.
using Findings = std::vector<std::pair<std::string, std::vector<std::string>>>;

void add(Findings& findings, const std::string& problem, const std::string& node) {
  const auto same = std::find_if(findings.begin(), findings.end(),
                                 [&](const auto& finding) { return finding.first == problem; });
  if (same == findings.end()) {
    findings.push_back({problem, {node}});
  } else {
    same->second.push_back(node);
  }
}

/// The known part of the nodes' environment.
EnvironmentLookup variables_of(const NodeTask& task) {
  return [&task](const std::string& name) -> std::optional<std::string> {
    for (const auto& variable : task.variables) {
      if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
    }
    return std::nullopt;
  };
}

/// The first names only if there are many.
std::string names_of(const std::vector<std::string>& nodes) {
  constexpr std::size_t kShownMax = 3;
  if (nodes.size() <= kShownMax + 1) return join(nodes, ", ");
  return join({nodes.begin(), nodes.begin() + kShownMax}, ", ") + " and " +
         std::to_string(nodes.size() - kShownMax) + " more";
}

using Problems = std::vector<std::string>;

class NodeChecker {
 public:
  NodeChecker(const ConfigFile& file, const SshPlan& plan, const NodeCheck& how)
      : file_(file), plan_(plan), how_(how) {
    std::vector<std::string> arguments = {"--config=" + file.name};
    if (!plan.task.secret.empty()) {
      secret_ = memory_file("ddprun-secret", plan.task.secret);
      arguments.push_back("--secret_file=/proc/self/fd/" + std::to_string(secret_.get()));
    }
    arguments.insert(arguments.end(), plan.task.arguments.begin(), plan.task.arguments.end());
    parsed_ = read_arguments(arguments);
  }

  Problems problems_here() const {
    const auto load = [&](const ConfigRequest& request) {
      return resolve(*plan_.own, request, how_.environment);
    };
    const auto options =
        options_of(how_.environment, {.config = load, .scheduler = how_.scheduler});
    if (const auto* problem = std::get_if<UsageProblem>(&options)) return problem->problems;
    if (!how_.check) return {};
    const auto summary = how_.check(std::get<LaunchOptions>(options));
    const auto* problem = std::get_if<UsageProblem>(&summary);
    if (problem == nullptr) return {};
    return with_origins(problem->problems, std::get<LaunchOptions>(options));
  }

  /// Returns no problems if a value depends on a variable that is known to the node only.
  Problems problems_there(const Target& target) const {
    const auto environment = variables_of(plan_.task);
    bool is_open = false;
    const auto load = [&](const ConfigRequest& request) {
      auto values = resolve(target, request, environment);
      is_open = std::holds_alternative<UsageProblem>(values);
      return values;
    };
    const auto options = options_of(environment, {.config = load});
    if (is_open) return {};
    if (const auto* problem = std::get_if<UsageProblem>(&options)) return problem->problems;
    const auto& given = std::get<LaunchOptions>(options);
    return with_origins(problems_anywhere(given, environment), given);
  }

 private:
  std::variant<ConfigValues, UsageProblem> resolve(const Target& target,
                                                   const ConfigRequest& request,
                                                   const EnvironmentLookup& environment) const {
    const FoundNode node{.name = target.name, .index = target.node, .how = "by ddprun --ssh"};
    return resolve_config(file_, node, request.given, environment);
  }

  std::variant<LaunchOptions, UsageProblem> options_of(const EnvironmentLookup& environment,
                                                       const OptionSources& sources) const {
    return gather_options(parsed_, environment, {}, sources, how_.needs_program);
  }

  const ConfigFile& file_;
  const SshPlan& plan_;
  const NodeCheck& how_;
  UniqueFd secret_;  ///< file that the arguments name
  ParsedArguments parsed_;
};

}  // namespace

std::vector<std::string> problems_of_nodes(const ConfigFile& file, const SshPlan& plan,
                                           const NodeCheck& how) {
  const NodeChecker checker(file, plan, how);
  Findings findings;
  if (plan.own) {
    for (const auto& problem : checker.problems_here()) add(findings, problem, plan.own->name);
  }
  for (const auto& target : plan.targets) {
    for (const auto& problem : checker.problems_there(target)) add(findings, problem, target.name);
  }
  const auto all = plan.targets.size() + (plan.own ? 1 : 0);
  std::vector<std::string> lines;
  for (const auto& [problem, nodes] : findings) {
    lines.push_back((nodes.size() == all ? "" : names_of(nodes) + ": ") + problem);
  }
  return lines;
}

}  // namespace ddprun::ssh
