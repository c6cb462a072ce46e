#include "launcher/plan/describe_plan.hpp"

#include "launcher/plan/log_layout.hpp"
#include "launcher/plan/numa.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/worker_env.hpp>

#include <algorithm>
#include <map>

namespace ddprun {

namespace {

constexpr const char* kKnownAtStart = "(chosen at the start)";

std::string seconds_text(std::chrono::milliseconds duration) {
  auto text = std::to_string(duration.count() / 1000);
  const auto rest = duration.count() % 1000;
  if (rest != 0) text += "." + std::to_string(1000 + rest).substr(1);
  return text + " s";
}

/// The worker's variables in the first attempt, in the order of their names.
std::map<std::string, std::string> variables_of(const LaunchPlan& plan, const WorkerPlan& worker) {
  const int workers = static_cast<int>(plan.workers.size());
  WorkerEnv env;
  env.rank = env.local_rank = env.role_rank = worker.local_rank;
  env.world_size = env.local_world_size = env.role_world_size = workers;
  env.role_name = plan.role;
  env.master_addr = plan.store_host;
  env.master_port = plan.store_port;
  env.max_restarts = plan.max_restarts;
  env.run_id = plan.run_id;
  env.use_agent_store = true;
  auto variables = to_environment(env);
  if (plan.store_port == 0) variables["MASTER_PORT"] = kKnownAtStart;
  variables["TORCHELASTIC_ERROR_FILE"] = kKnownAtStart;
  if (plan.log_dir) {
    const auto folder = worker_folder(run_folder(*plan.log_dir, plan), 0, worker.local_rank);
    variables["TORCHELASTIC_ERROR_FILE"] = (folder / kErrorFile).string();
  }
  for (const auto& [name, value] : worker.environment) variables[name] = value;
  return variables;
}

std::string stream_text(StreamTarget target, bool is_shown, bool has_files) {
  const bool in_file = has_files && target != StreamTarget::console;
  const bool on_console = is_shown && target != StreamTarget::file;
  if (in_file && on_console) return "file and console";
  if (in_file) return "file";
  return on_console ? "console" : "nowhere";
}

std::string worker_text(const LaunchPlan& plan, const WorkerPlan& worker) {
  std::vector<std::string> command;
  for (const auto& word : worker.arguments) command.push_back(shell_quoted(word));
  std::string text = "node 0, rank " + std::to_string(worker.local_rank) + "\n";
  text += "  command: " + join(command, " ") + "\n";
  text +=
      "  stdout: " +
      stream_text(worker.standard_output, worker.is_shown, plan.log_dir.has_value()) +
      ", stderr: " + stream_text(worker.standard_error, worker.is_shown, plan.log_dir.has_value()) +
      "\n";
  if (!worker.cpus.empty()) text += "  CPUs: " + format_cpu_list(worker.cpus) + "\n";
  text += "  environment:\n";
  for (const auto& [name, value] : variables_of(plan, worker)) {
    text += "    " + name + "=" + (value == kKnownAtStart ? value : shell_quoted(value)) + "\n";
  }
  return text;
}

}  // namespace

std::string describe_plan(const LaunchPlan& plan) {
  const auto port = plan.store_port == 0 ? kKnownAtStart : std::to_string(plan.store_port);
  std::string text = "run " + plan.run_id + ": " + std::to_string(plan.workers.size()) + " x " +
                     plan.program + ", role " + plan.role + "\n";
  text += "store: " + plan.store_host + ", port " + port + "\n";
  text += "restarts: " + std::to_string(plan.max_restarts) +
          ", shutdown timeout: " + seconds_text(plan.shutdown_timeout) + "\n";
  if (plan.log_dir) text += "logs: " + run_folder(*plan.log_dir, plan).string() + "\n";
  if (plan.events_file) text += "events: " + plan.events_file->string() + "\n";
  for (const auto& note : plan.notes) text += "note: " + note + "\n";
  for (const auto& worker : plan.workers) text += worker_text(plan, worker);
  return printable(text);
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
