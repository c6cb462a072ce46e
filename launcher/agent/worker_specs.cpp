#include "launcher/agent/worker_specs.hpp"

#include "launcher/plan/log_layout.hpp"
#include <ddprun/worker_env.hpp>

namespace ddprun {

namespace {

WorkerEnv make_worker_env(const LaunchPlan& plan, const AttemptFacts& facts, int local_rank) {
  const int workers = static_cast<int>(plan.workers.size());
  return {.rank = local_rank,
          .world_size = workers,
          .local_rank = plan.workers[static_cast<std::size_t>(local_rank)].local_rank,
          .local_world_size = workers,
          .role_rank = local_rank,
          .role_world_size = workers,
          .role_name = plan.role,
          .master_addr = plan.store_host,
          .master_port = facts.store_port,
          .restart_count = facts.attempt,
          .max_restarts = plan.max_restarts,
          .run_id = plan.run_id,
          .use_agent_store = true,
          .error_file = facts.worker_folders[static_cast<std::size_t>(local_rank)] / kErrorFile,
          .control_page_fd = facts.control_page_fd,
          .control_page_slot = local_rank};
}

/// Without a log folder there is nowhere to keep what does not go to the console.
constexpr const char* kNowhere = "/dev/null";

StreamSpec make_stream_spec(const LaunchPlan& plan, StreamTarget target, bool is_shown,
                            const std::string& prefix, const std::filesystem::path& log_file) {
  const auto file = plan.log_dir ? log_file : std::filesystem::path(kNowhere);
  return {.target = target, .is_shown = is_shown, .prefix = prefix, .file = file};
}

}  // namespace

std::vector<WorkerSpec> make_worker_specs(const LaunchPlan& plan, const AttemptFacts& facts) {
  std::vector<WorkerSpec> specs;
  for (std::size_t i = 0; i < plan.workers.size(); ++i) {
    const WorkerPlan& worker = plan.workers[i];
    const int local_rank = static_cast<int>(i);
    const auto& folder = facts.worker_folders[i];
    const std::string prefix = "[" + plan.role + std::to_string(local_rank) + "]:";
    WorkerSpec spec{
        .rank = local_rank,
        .local_rank = local_rank,
        .arguments = worker.arguments,
        .environment = to_environment(make_worker_env(plan, facts, local_rank)),
        .cpus = worker.cpus,
        .memory_node = worker.memory_node,
        .open_files_max = plan.worker_open_files_max,
        .standard_output = make_stream_spec(plan, worker.standard_output, worker.is_shown, prefix,
                                            folder / kStandardOutputFile),
        .standard_error = make_stream_spec(plan, worker.standard_error, worker.is_shown, prefix,
                                           folder / kStandardErrorFile),
        .error_file = folder / kErrorFile};
    for (const auto& [name, value] : worker.environment) spec.environment[name] = value;
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace ddprun
