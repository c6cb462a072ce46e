#include "launcher/plan/describe_plan.hpp"

#include "launcher/cli/cpu_list.hpp"
#include "launcher/plan/describe_nodes.hpp"
#include "launcher/plan/log_layout.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/worker_env.hpp>

#include <algorithm>
#include <map>

namespace ddprun {

namespace {

constexpr const char* kKnownAtStart = "(chosen at the start)";
constexpr const char* kKnownAfterRendezvous = "(known after the rendezvous)";

std::string seconds_text(std::chrono::milliseconds duration) {
  auto text = std::to_string(duration.count() / 1000);
  const auto rest = duration.count() % 1000;
  if (rest != 0) text += "." + std::to_string(1000 + rest).substr(1);
  return text + " s";
}

using Variables = std::map<std::string, std::string>;

/// Returns the worker's folder in the first attempt, if there is a log folder.
std::filesystem::path first_folder(const LaunchPlan& plan, const WorkerPlan& worker) {
  return worker_folder(run_folder(*plan.log_dir, plan), 0, worker.local_rank);
}

/// Returns the port of the workers' store; 0: chosen at the start.
std::uint16_t store_port(const LaunchPlan& plan) {
  const bool is_apart = plan.nodes && !plan.options.secret_file.empty();
  return is_apart ? plan.nodes->settings.store_port : plan.store_port;
}

bool is_known_later(const std::string& value) {
  return value == kKnownAtStart || value == kKnownAfterRendezvous;
}

/// Replaces values that the rendezvous determines.
void hide_agreed_values(const LaunchPlan& plan, Variables& variables) {
  const auto hide = [&](std::initializer_list<const char*> names) {
    for (const auto* name : names) variables[name] = kKnownAfterRendezvous;
  };
  hide({"ROLE_RANK", "ROLE_WORLD_SIZE"});
  if (!expected_place(plan)) hide({"RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"});
  if (plan.nodes->etcd) hide({"MASTER_ADDR", "MASTER_PORT"});
}

/// Returns the worker's variables in the first attempt.
Variables variables_of(const LaunchPlan& plan, const WorkerPlan& worker) {
  const int workers = static_cast<int>(plan.workers.size());
  WorkerEnv env;
  env.rank = env.local_rank = env.role_rank = worker.local_rank;
  env.world_size = env.local_world_size = env.role_world_size = workers;
  if (const auto place = expected_place(plan)) {
    env.rank += place->first_rank;
    env.world_size = place->world_size;
    env.node_rank = place->node_rank;
    env.node_count = place->node_count;
  }
  env.role_name = plan.options.role;
  env.master_addr = plan.store_host;
  env.master_port = plan.worker_store_port.value_or(store_port(plan));
  env.max_restarts = plan.options.max_restarts;
  env.run_id = plan.run_id;
  env.use_agent_store = !plan.worker_store_port;
  env.shares_gpus = plan.options.share_gpu;
  auto variables = to_environment(env);
  if (env.master_port == 0) variables["MASTER_PORT"] = kKnownAtStart;
  variables["TORCHELASTIC_ERROR_FILE"] = kKnownAtStart;
  if (plan.log_dir) {
    variables["TORCHELASTIC_ERROR_FILE"] = (first_folder(plan, worker) / kErrorFile).string();
  }
  for (const auto& [name, value] : worker.environment) variables[name] = value;
  if (plan.nodes) hide_agreed_values(plan, variables);
  return variables;
}

/// Returns the variables that have the same value in all workers.
Variables common_to(const std::vector<Variables>& workers) {
  Variables common = workers.front();
  for (const auto& variables : workers) {
    std::erase_if(common, [&](const auto& variable) {
      const auto found = variables.find(variable.first);
      return found == variables.end() || found->second != variable.second;
    });
  }
  return common;
}

std::string variables_text(const Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) {
    text += "    " + name + "=" + (is_known_later(value) ? value : shell_quoted(value)) + "\n";
  }
  return text;
}

std::string stream_text(const LaunchPlan& plan, const WorkerPlan& worker, StreamTarget target,
                        const char* file) {
  std::vector<std::string> places;
  if (is_output_shown(plan, worker, worker.local_rank) && target != StreamTarget::file)
    places.emplace_back("console");
  if (plan.log_dir && target != StreamTarget::console) {
    places.push_back((first_folder(plan, worker) / file).string());
  }
  return places.empty() ? "nowhere" : join(places, " and ");
}

std::string place_text(const LaunchPlan& plan, const WorkerPlan& worker) {
  const auto place = expected_place(plan);
  if (plan.nodes && !place) return "this node, local rank " + std::to_string(worker.local_rank);
  const auto [node, rank] =
      place ? std::pair(place->node_rank, place->first_rank) : std::pair(0, 0);
  return "node " + std::to_string(node) + ", rank " + std::to_string(rank + worker.local_rank);
}

/// `own`: variables that differ between workers.
std::string worker_text(const LaunchPlan& plan, const WorkerPlan& worker, const Variables& own) {
  std::vector<std::string> command;
  for (const auto& word : worker.arguments) command.push_back(shell_quoted(word));
  std::string text = place_text(plan, worker) + "\n";
  text += "  command: " + join(command, " ") + "\n";
  text += "  stdout: " + stream_text(plan, worker, worker.standard_output, kStandardOutputFile);
  text += "\n  stderr: " + stream_text(plan, worker, worker.standard_error, kStandardErrorFile);
  text += "\n";
  if (!worker.cpus.empty()) {
    text += "  CPUs: " + format_cpu_list(worker.cpus);
    if (worker.memory_node >= 0)
      text += ", memory: NUMA node " + std::to_string(worker.memory_node);
    text += "\n";
  }
  if (!own.empty()) text += "  its own environment:\n" + variables_text(own);
  return text;
}

std::string warnings_text(const LaunchPlan& plan) {
  std::string text;
  for (const auto& warning : plan.warnings) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace

std::string describe_plan(const LaunchPlan& plan) {
  const auto port = store_port(plan) == 0 ? kKnownAtStart : std::to_string(store_port(plan));
  const auto workers = plan.workers.size();
  std::string text = "run " + plan.run_id + ": " + std::to_string(workers) + " x " +
                     plan.options.program + ", role " + plan.options.role + "\n";
  if (!plan.nodes || !plan.nodes->etcd) {
    text += "store: " + plan.store_host + ", port " + port + "\n";
  }
  if (plan.nodes) {
    text += describe_nodes(plan);
    const auto& secret_file = plan.options.secret_file;
    text += "secret: " + (secret_file.empty() ? "none, any machine can join" : secret_file) + "\n";
  }
  const auto window = plan.options.restart_window;
  text += "restarts: " + std::to_string(plan.options.max_restarts) +
          (window.count() > 0 ? " within " + seconds_text(window) : "") +
          ", shutdown timeout: " + seconds_text(plan.options.shutdown_timeout) + "\n";
  if (plan.log_dir) text += "logs: " + run_folder(*plan.log_dir, plan).string() + "\n";
  if (plan.error_file) text += "error file of ddprun: " + plan.error_file->string() + "\n";
  if (!plan.options.events.empty()) text += "events: " + plan.options.events + "\n";
  if (!plan.options.from_config.hash.empty())
    text += "configuration: hash " + plan.options.from_config.hash + "\n";
  if (!plan.removed_variables.empty()) {
    text += "not inherited by the workers: " + join(plan.removed_variables, ", ") + "\n";
  }
  for (const auto& note : plan.notes) text += "note: " + note + "\n";
  text += warnings_text(plan);
  std::vector<Variables> variables;
  for (const auto& worker : plan.workers) variables.push_back(variables_of(plan, worker));
  // With a single worker, all variables are its own.
  const auto common = workers > 1 ? common_to(variables) : Variables{};
  if (!common.empty()) text += "environment of every worker:\n" + variables_text(common);
  for (std::size_t i = 0; i < workers; ++i) {
    std::erase_if(variables[i],
                  [&](const auto& variable) { return common.contains(variable.first); });
    text += worker_text(plan, plan.workers[i], variables[i]);
  }
  return printable(text);
}

std::string summarize_plan(const LaunchPlan& plan) {
  std::string text;
  if (plan.nodes) {
    const auto& nodes = *plan.nodes;
    const auto rank = nodes.node_rank < 0 ? "" : ", rank " + std::to_string(nodes.node_rank);
    text += "node: " + nodes.name + rank + ", of at most " +
            std::to_string(nodes.settings.nodes_max) + ", in run " + plan.run_id;
    if (!nodes.endpoint_host.empty()) {
      text += ", meeting at " + nodes.endpoint_host + ":" + std::to_string(nodes.endpoint_port);
    }
    text += "\n";
  }
  const auto workers = plan.workers.size();
  text += workers == 1 ? "1 worker" : std::to_string(workers) + " workers";
  if (!plan.options.program.empty()) {
    std::vector<std::string> command;
    for (const auto& word : plan.workers.front().arguments) command.push_back(shell_quoted(word));
    text += (workers == 1 ? " runs: " : ", the first runs: ") + join(command, " ");
  }
  return printable(text + "\n" + warnings_text(plan));
}

std::string shell_quoted(std::string_view word) {
  const bool is_harmless =
      !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
               (letter >= '0' && letter <= '9') ||
               std::string_view("-_=./,:+@%").find(static_cast<char>(letter)) !=
                   std::string_view::npos;
      });
  if (is_harmless) return std::string(word);
  std::string quoted = "'";
  for (const char letter : word)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

}  // namespace ddprun
