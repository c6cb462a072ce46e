#include "launcher/ssh/ssh_plan.hpp"

#include "launcher/cli/option_values.hpp"
#include "launcher/config/interpolation.hpp"
#include "launcher/config/named_nodes.hpp"
#include "launcher/plan/describe_nodes.hpp"
#include "launcher/ssh/ssh_command.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun::ssh {

namespace {

/// Patterns are "NAME" or "START*".
bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

class SshPlanner {
 public:
  SshPlanner(const ConfigFile& file, const ParsedArguments& parsed, const StarterFacts& facts)
      : file_(file), parsed_(parsed), facts_(facts) {}

  std::variant<SshPlan, UsageProblem> make(const std::string& text) {
    check();
    choose_settings();
    choose_nodes();
    plan_.task = {.node_name = {},
                  .variables = variables(),
                  .folder = facts_.folder,
                  .config_name = file_.name,
                  .config_text = text,
                  .arguments = arguments(),
                  .secret = is_security_given() ? "" : facts_.make_secret(),
                  .mark = facts_.mark,
                  .columns = facts_.columns};
    plan_.nodes = named_nodes(file_, given(), facts_.environment);
    plan_.has_node_prefix = !is_argument("prefix") && !is_argument("log_line_prefix_template");
    std::size_t name_bytes_max = 0;
    for (const auto& name : plan_.names) name_bytes_max = std::max(name_bytes_max, name.size());
    if (encode(plan_.task).size() + name_bytes_max > kTaskBytesMax) {
      problems_.push_back("--ssh: file, arguments and variables exceed " +
                          std::to_string(kTaskBytesMax) + " bytes");
    }
    if (!problems_.empty()) return UsageProblem{std::move(problems_)};
    return std::move(plan_);
  }

 private:
  void check() {
    if (!parsed_.problem.empty()) problems_.push_back(parsed_.problem);
    LaunchOptions scratch;
    GatheredValues values;
    values.given = parsed_.given;
    for (auto& problem : apply_values(values, scratch)) problems_.push_back(std::move(problem));
    if (file_.nodes.empty()) problems_.push_back("--ssh: " + file_.name + " has no \"nodes\"");
    if (facts_.ssh.empty()) problems_.emplace_back("--ssh: no ssh in PATH; install an ssh client");
    for (const char* name : {"node_rank", "local_addr"}) {
      if (!is_argument(name)) continue;
      problems_.push_back("--ssh: --" + std::string(name) +
                          " differs between nodes; use \"nodes\" in the file");
    }
    if (is_argument("standalone")) problems_.emplace_back("--ssh: --standalone is for one node");
    if (is_argument("stdin")) problems_.emplace_back("--ssh: --stdin is not supported");
  }

  void choose_settings() {
    plan_.ssh = facts_.ssh;
    auto settings = read_ssh_settings(file_.root);
    settings.user = replaced(settings.user, "ssh.user");
    settings.program = replaced(settings.program, "ssh.program");
    for (auto& option : settings.options) option = replaced(option, "ssh.options");
    if (settings.program.empty()) settings.program = facts_.program;
    forward_variables_ = std::move(settings.forward_variables);
    settings.forward_variables.clear();
    plan_.settings = std::move(settings);
  }

  std::string replaced(const std::string& text, const char* path) {
    auto result = interpolate(text, facts_.environment);
    if (const auto* problem = std::get_if<ValueProblem>(&result)) {
      problems_.push_back(file_.name + ": " + path + ": " + problem->text);
      return {};
    }
    return std::get<std::string>(std::move(result));
  }

  void choose_nodes() {
    const auto count = file_.nodes.size();
    const auto range = nodes_wanted();
    // Ranks are fixed with static, which has no spares.
    const bool is_static = backend() == RendezvousBackend::fixed;
    const auto most = static_cast<std::size_t>(range.max);
    const auto started = is_static ? std::min(count, most) : count;
    plan_.nodes_min = static_cast<std::size_t>(range.min);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& node = file_.nodes[i];
      plan_.names.push_back(node.name);
      const Target target{.node = static_cast<std::uint32_t>(i),
                          .name = node.name,
                          .destination = node.address.empty() ? node.name : node.address};
      if (i >= started) continue;
      if (facts_.own_node == i) {
        plan_.own = target;
      } else {
        plan_.targets.push_back(target);
      }
    }
    plan_.host = host();
    if (started > kNodesMax) {
      problems_.push_back("--ssh: starts at most " + std::to_string(kNodesMax) + " nodes, " +
                          file_.name + " asks for " + std::to_string(started) +
                          "; start larger runs with a scheduler such as Slurm");
    }
    if (plan_.nodes_min > started) {
      problems_.push_back("--ssh: --nnodes asks for at least " + std::to_string(range.min) +
                          " nodes, " + file_.name + " has " + std::to_string(count));
    }
  }

  /// Returns the nodes' value, unless it depends on their variables.
  NodeRange nodes_wanted() const {
    const int all = static_cast<int>(file_.nodes.size());
    const auto range = parse_node_range(value_of("nnodes").value_or(std::to_string(all)));
    const auto* parsed = std::get_if<NodeRange>(&range);
    return parsed == nullptr ? NodeRange{all, all} : *parsed;
  }

  RendezvousBackend backend() const {
    return rendezvous_backend_or_default(value_of("rdzv_backend").value_or(""));
  }

  std::optional<std::size_t> host() const {
    // The nodes elect the host.
    if (is_etcd(backend())) return std::nullopt;
    auto name = value_of("master_addr");
    if (!name) {
      const auto endpoint = parse_endpoint(value_of("rdzv_endpoint").value_or(""));
      const auto* parsed = std::get_if<RendezvousEndpoint>(&endpoint);
      if (parsed != nullptr && !parsed->host.empty()) name = parsed->host;
    }
    if (!name) return 0;
    for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
      if (file_.nodes[i].name == *name || file_.nodes[i].address == *name) return i;
    }
    return std::nullopt;
  }

  /// Returns the value from arguments, variables or the section "rendezvous".
  std::optional<std::string> value_of(const char* name) const {
    const auto* option = find_option(name);
    const auto given = parsed_.given.find(option);
    if (given != parsed_.given.end()) return given->second.value;
    if (const auto variable = value_from_variables(*option, facts_.environment)) {
      return variable->value;
    }
    const auto* section = file_.root.find("rendezvous");
    const auto* member = section == nullptr ? nullptr : section->value.find(name);
    if (member == nullptr) return std::nullopt;
    return member->value.text;
  }

  /// Returns the values from arguments and variables.
  GivenValues given() const {
    auto given = parsed_.given;
    for (const auto& option : option_table()) {
      if (const auto value = value_from_variables(option, facts_.environment)) {
        given.emplace(&option, *value);
      }
    }
    return given;
  }

  bool is_security_given() const {
    return is_argument("secret_file") || is_argument("security") ||
           file_.root.find("security") != nullptr;
  }

  bool is_argument(const char* name) const { return parsed_.given.contains(find_option(name)); }

  /// Returns the arguments for all nodes, without the file and the name of the node.
  std::vector<std::string> arguments() const {
    std::vector<std::string> arguments;
    for (const auto& [option, value] : parsed_.given) {
      const bool is_local = option->name == "ssh" || option->name == "config" ||
                            option->name == "node_name" || option->name == "dry_run";
      if (is_local) continue;
      const auto name = "--" + std::string(option->name);
      arguments.push_back(option->is_flag() ? name : name + "=" + value.value);
    }
    std::sort(arguments.begin(), arguments.end());
    arguments.emplace_back("--");
    arguments.insert(arguments.end(), parsed_.rest.begin(), parsed_.rest.end());
    return arguments;
  }

  /// Returns the variables of options, and those that the file forwards.
  std::vector<std::string> variables() const {
    std::vector<std::string> wanted = {"LOGLEVEL", "PYTHON_EXEC"};
    for (const auto& option : option_table()) {
      if (option.variables.empty() || option.name == "node_name") continue;
      for (const auto& name : split(option.variables, ' ')) wanted.push_back(name);
    }
    std::vector<std::string> variables;
    for (const auto& name : facts_.variables) {
      const bool is_option = std::find(wanted.begin(), wanted.end(), name) != wanted.end();
      if (!is_option && !matches_any(name, forward_variables_)) continue;
      variables.push_back(name + "=" + facts_.environment(name).value_or(""));
    }
    return variables;
  }

  const ConfigFile& file_;
  const ParsedArguments& parsed_;
  const StarterFacts& facts_;
  SshPlan plan_;
  std::vector<std::string> forward_variables_;
  std::vector<std::string> problems_;
};

}  // namespace

std::variant<SshPlan, UsageProblem> plan_ssh(const ConfigFile& file, const std::string& text,
                                             const ParsedArguments& parsed,
                                             const StarterFacts& facts) {
  return SshPlanner(file, parsed, facts).make(text);
}

std::string describe(const SshPlan& plan) {
  std::string text = "nodes:\n";
  for (const auto& line : describe_named_nodes(plan.nodes)) text += "  " + line + "\n";
  if (plan.own) text += plan.own->name + ": on this machine\n";
  for (const auto& target : plan.targets) {
    std::vector<std::string> quoted;
    for (const auto& word : ssh_command(plan.ssh, plan.settings, target.destination)) {
      quoted.push_back(quoted_for_shell(word));
    }
    text += target.name + ": " + join(quoted, " ") + "\n";
  }
  std::vector<std::string> arguments;
  for (const auto& argument : plan.task.arguments) {
    arguments.push_back(quoted_for_shell(argument));
  }
  if (!plan.task.secret.empty()) text += "secret: new for this run, sent over ssh\n";
  text += "in: " + plan.task.folder + "\nwith: " + join(arguments, " ") + "\n";
  // Names only: values may be tokens, and plans are kept in logs.
  for (const auto& variable : plan.task.variables)
    text += "variable: " + variable.substr(0, variable.find('=')) + "\n";
  return printable(text);
}

}  // namespace ddprun::ssh
