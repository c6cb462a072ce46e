#include "launcher/agent/worker_specs.hpp"

#include "launcher/plan/log_layout.hpp"
#include <ddprun/worker_env.hpp>

#include <algorithm>
#include <cstddef>
#include <map>

namespace ddprun {

namespace {

WorkerEnv make_worker_env(const LaunchPlan& plan, const AttemptFacts& facts, int local_rank) {
  const int workers = static_cast<int>(plan.workers.size());
  const auto& node = facts.placement;
  const auto& folder = facts.worker_folders[static_cast<std::size_t>(local_rank)].path();
  return {.rank = node.first_rank + local_rank,
          .world_size = node.world_size,
          .local_rank = plan.workers[static_cast<std::size_t>(local_rank)].local_rank,
          .local_world_size = workers,
          .node_rank = node.node_rank,
          .node_count = node.node_count,
          .role_rank = node.first_role_rank + local_rank,
          .role_world_size = node.role_world_size,
          .role_name = plan.options.role,
          .master_addr = node.master_addr,
          .master_port = facts.worker_store_port.value_or(facts.store_port),
          .restart_count = facts.restart_count,
          .max_restarts = plan.options.max_restarts,
          .run_id = plan.run_id,
          .use_agent_store = !facts.worker_store_port,
          .agent_store_addr = facts.worker_store_port ? plan.store_host : "",
          .agent_store_port = facts.worker_store_port ? facts.store_port : std::uint16_t{0},
          .error_file = folder / kErrorFile,
          .control_page_fd = facts.control_page_fd,
          .control_page_slot = local_rank,
          .shares_gpus = plan.options.share_gpu};
}

/// Without a log folder, output that does not go to the console is discarded.
constexpr const char* kNullDevice = "/dev/null";

/// Common settings of the two streams of a worker.
struct StreamMaker {
  const LaunchPlan& plan;
  const WorkerPlan& worker;
  const HeldPath& folder;
  bool is_only_one_shown;
  PrefixValues values;

  StreamSpec make_output() const {
    auto spec = make(worker.standard_output, "stdout", kStandardOutputFile);
    return with_filters(std::move(spec), plan.options.duplicate_stdout_filters,
                        kFilteredOutputFile);
  }

  StreamSpec make_error() const {
    auto spec = make(worker.standard_error, "stderr", kStandardErrorFile);
    return with_filters(std::move(spec), plan.options.duplicate_stderr_filters, kFilteredErrorFile);
  }

  StreamSpec with_filters(StreamSpec spec, const std::vector<std::string>& filters,
                          const char* log_file) const {
    if (filters.empty() || !plan.log_dir || spec.target != StreamTarget::tee) return spec;
    spec.filters = filters;
    spec.filtered_file = folder.parent_path() / log_file;
    return spec;
  }

  /// Without any prefix, the output is meant for a program or for a terminal, and is passed on
  /// unchanged.
  ConsoleForm form() const {
    if (!plan.options.prefix.pieces.empty()) return ConsoleForm::lines;
    return is_only_one_shown ? ConsoleForm::verbatim_bytes : ConsoleForm::verbatim;
  }

  StreamSpec make(StreamTarget target, const char* stream, const char* log_file) const {
    auto named = values;
    named.stream = stream;
    const bool has_prefix = target == StreamTarget::tee || !plan.options.has_prefix_by_tee_only;
    return {.target = target,
            .is_shown = is_output_shown(plan, worker, values.rank),
            .prefix = has_prefix ? fill_in(plan.options.prefix, named) : LinePrefix(),
            .form = form(),
            .file = plan.log_dir ? folder / log_file : HeldPath(kNullDevice)};
  }
};

/// Minimum width: below this, programs cannot lay out their output well.
constexpr int kColumnsMin = 20;

/// Sets the variables for the size of the terminal, less the prefix of the lines: the worker has no
/// terminal of its own whose size it could query.
void add_terminal_variables(const LaunchPlan& plan, const AttemptFacts& facts, WorkerSpec& spec) {
  std::optional<TerminalSize> size;
  const auto narrow = [&](const StreamSpec& stream, std::optional<TerminalSize> terminal) {
    if (!terminal || !stream.is_shown || stream.target == StreamTarget::file) return;
    terminal->columns -= columns_of(stream.prefix);
    if (!size || terminal->columns < size->columns) size = terminal;
  };
  narrow(spec.standard_output, facts.output_terminal);
  narrow(spec.standard_error, facts.error_terminal);
  if (!size || size->columns < kColumnsMin) return;
  // The last column stays free: terminals differ in whether they begin a new row after it.
  const std::map<std::string, int> values{
      {"COLUMNS", size->columns}, {"LINES", size->rows}, {"TQDM_NCOLS", size->columns - 1}};
  for (const auto& name : plan.terminal_variables) {
    spec.environment[name] = std::to_string(values.at(name));
  }
}

/// Number of this node's workers that are shown.
std::ptrdiff_t count_shown(const LaunchPlan& plan, const AttemptFacts& facts) {
  return std::count_if(plan.workers.begin(), plan.workers.end(), [&](const WorkerPlan& worker) {
    return is_output_shown(plan, worker, facts.placement.first_rank + worker.local_rank);
  });
}

}  // namespace

NodePlacement single_node_placement(const LaunchPlan& plan) {
  const int workers = static_cast<int>(plan.workers.size());
  return {.world_size = workers, .role_world_size = workers, .master_addr = plan.store_host};
}

bool has_standard_input(const LaunchPlan& plan, const AttemptFacts& facts, int rank) {
  const auto& choice = plan.options.stdin_worker;
  if (!choice.is_automatic) return choice.rank == rank;
  // Of several readers, each would get parts of the input.
  return rank == 0 && facts.standard_input != InputKind::unreadable;
}

std::vector<WorkerSpec> make_worker_specs(const LaunchPlan& plan, const AttemptFacts& facts) {
  const bool is_only_one_shown = count_shown(plan, facts) == 1;
  std::vector<WorkerSpec> specs;
  for (std::size_t i = 0; i < plan.workers.size(); ++i) {
    const WorkerPlan& worker = plan.workers[i];
    const int local_rank = static_cast<int>(i);
    const auto& folder = facts.worker_folders[i];
    const StreamMaker streams{.plan = plan,
                              .worker = worker,
                              .folder = folder,
                              .is_only_one_shown = is_only_one_shown,
                              .values = {.role_name = plan.options.role,
                                         .local_rank = local_rank,
                                         .rank = facts.placement.first_rank + local_rank,
                                         .hostname = plan.host_name,
                                         .node_rank = facts.placement.node_rank,
                                         .attempt = facts.attempt}};
    const int rank = facts.placement.first_rank + local_rank;
    WorkerSpec spec{.rank = rank,
                    .local_rank = local_rank,
                    .arguments = worker.arguments,
                    .environment = to_environment(make_worker_env(plan, facts, local_rank)),
                    .removed_variables = plan.removed_variables,
                    .cpus = worker.cpus,
                    .memory_node = worker.memory_node,
                    .open_files_max = plan.worker_open_files_max,
                    .standard_output = streams.make_output(),
                    .standard_error = streams.make_error(),
                    .error_file = folder / kErrorFile,
                    .inherits_standard_input = has_standard_input(plan, facts, rank)};
    if (plan.log_dir) spec.stacks_file = folder / kStacksFile;
    add_terminal_variables(plan, facts, spec);
    for (const auto& [name, value] : worker.environment) spec.environment[name] = value;
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace ddprun
