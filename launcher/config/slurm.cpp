#include "launcher/cli/option_values.hpp"
#include "launcher/config/node_names.hpp"
#include "launcher/config/scheduler.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <optional>

namespace ddprun {

namespace {

constexpr int kNumberMax = 2'000'000'000;
constexpr const char* kStandaloneHint = "; use --standalone to run on this node only";

/// Concurrent steps of a job, and jobs with neighbouring numbers, need different ports on the same
/// node.
int port_of(int job, int step) {
  constexpr long kStride = 1009;
  return kSlurmPortFirst + static_cast<int>((job + kStride * step) % kSlurmPorts);
}

std::string count_text(int nodes) {
  return std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
}

/// Returns true if each node has one task, as in "1(x2)".
bool has_one_task_per_node(const std::string& tasks) {
  const auto parts = split(tasks, ',');
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part == "1" || part.rfind("1(", 0) == 0;
  });
}

class SlurmReader {
 public:
  explicit SlurmReader(const SchedulerClues& clues) : clues_(clues) {}

  SchedulerValues read() {
    if (!variable("SLURM_JOB_ID") || are_nodes_given()) return values_;
    const auto job_nodes = number("SLURM_JOB_NUM_NODES", "SLURM_NNODES");
    if (problem_.empty() && job_nodes) read_job(*job_nodes);
    if (!problem_.empty()) return UsageProblem{{problem_ + kStandaloneHint}};
    return std::move(values_);
  }

 private:
  struct Variable {
    std::string name, value;
    std::string text() const { return name + "=" + value; }
  };

  /// A step of a heterogeneous job may span any of its components.
  bool is_heterogeneous() const { return clues_.environment("SLURM_HET_SIZE").has_value(); }

  bool are_nodes_given() const {
    // This process is a worker of another launcher, which has chosen the nodes.
    if (clues_.environment("TORCHELASTIC_RUN_ID") || is_heterogeneous()) return true;
    const auto names = {"nnodes",    "standalone",  "rdzv_backend", "rdzv_endpoint",
                        "node_rank", "master_addr", "master_port"};
    return std::any_of(names.begin(), names.end(), [this](const char* name) {
      return clues_.given.contains(find_option(name));
    });
  }

  void read_job(int nodes) {
    if (is_outside_of_job()) {
      note("Slurm gave " + count_text(nodes) + " to job " + job() +
           ", but this run is on none of them: it was started on " + clues_.host_name +
           " without srun; 'srun --ntasks-per-node=1 ddprun ...' uses all");
    } else if (nodes > 1) {
      read_step(nodes);
    }
  }

  /// salloc sets the variables of a job on the machine where it runs, which may not be a node of
  /// the job. Batch scripts and steps have further variables.
  bool is_outside_of_job() const {
    for (const char* name : {"SLURM_STEP_ID", "SLURM_NODEID", "SLURMD_NODENAME"}) {
      if (variable(name)) return false;
    }
    const auto list = variable("SLURM_JOB_NODELIST");
    const auto parsed = expand_node_names(list ? list->value : "");
    const auto* names = std::get_if<std::vector<std::string>>(&parsed);
    const auto here = clues_.host_name.substr(0, clues_.host_name.find('.'));
    return names != nullptr && std::find(names->begin(), names->end(), here) == names->end();
  }

  void read_step(int job_nodes) {
    const auto step = variable("SLURM_STEP_ID");
    const auto step_nodes = number("SLURM_STEP_NUM_NODES");
    if (!step || step_nodes.value_or(1) < 2) {
      note("Slurm gave " + count_text(job_nodes) + " to job " + job() +
           ", of which this run uses one; 'srun --ntasks-per-node=1 ddprun ...' uses all");
      return;
    }
    const auto tasks = variable("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    if (tasks && !has_one_task_per_node(tasks->value)) {
      return fail(*tasks,
                  "several ddprun processes were started on one node, but each starts all workers "
                  "of its node; use srun --ntasks-per-node=1");
    }
    const auto list = variable("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
    if (!list) return fail(*step, "SLURM_STEP_NODELIST is not set");
    const auto names = expand_node_names(list->value);
    if (const auto* wrong = std::get_if<ValueProblem>(&names)) return fail(*list, wrong->text);
    add_nodes(*step, *list, std::get<std::vector<std::string>>(names), *step_nodes);
  }

  void add_nodes(const Variable& step, const Variable& list, const std::vector<std::string>& names,
                 int step_nodes) {
    if (names.size() != static_cast<std::size_t>(step_nodes)) {
      return fail(list, "names " + std::to_string(names.size()) + " nodes, SLURM_STEP_NUM_NODES " +
                            std::to_string(step_nodes));
    }
    const auto index = number("SLURM_NODEID");
    if (!index) return fail(list, "SLURM_NODEID is not set");
    if (*index >= step_nodes) {
      return fail({"SLURM_NODEID", std::to_string(*index)},
                  "there are " + std::to_string(step_nodes) + " nodes");
    }
    const auto job_number = number("SLURM_JOB_ID");
    const auto step_number = number("SLURM_STEP_ID");
    if (!job_number || !step_number) return;
    const auto& name = names[static_cast<std::size_t>(*index)];
    const auto port = std::to_string(port_of(*job_number, *step_number));
    const auto run = "slurm-" + job() + "." + step.value;
    add("nnodes", std::to_string(step_nodes), list.text());
    add("node_rank", std::to_string(*index), "SLURM_NODEID=" + std::to_string(*index));
    add("master_addr", names.front(), list.text());
    add("master_port", port, "SLURM_JOB_ID=" + job());
    add("rdzv_id", run, "SLURM_JOB_ID=" + job());
    add("local_addr", name, list.text());
    values_.settings.names_in_run = names;
    values_.settings.nodes_from = "Slurm";
    // The first node hosts the coordinator, so it knows the result of the run.
    if (*index != 0) values_.settings.reporter = names.front();
    note("from Slurm: node " + std::to_string(*index) + " of " + std::to_string(step_nodes) + ", " +
         name + " (SLURM_NODEID, SLURM_STEP_NODELIST=" + list.value + "), meeting at " +
         names.front() + ":" + port + " as run " + run + " (SLURM_JOB_ID, SLURM_STEP_ID)" +
         add_workers());
  }

  /// Sets one worker per GPU of the job on this node.
  std::string add_workers() {
    const auto gpus = number("SLURM_GPUS_ON_NODE");
    if (gpus.value_or(0) == 0 || clues_.given.contains(find_option("nproc_per_node"))) return "";
    add("nproc_per_node", std::to_string(*gpus), "SLURM_GPUS_ON_NODE=" + std::to_string(*gpus));
    return ", " + std::to_string(*gpus) + " workers (SLURM_GPUS_ON_NODE)";
  }

  void add(const char* name, const std::string& value, const std::string& where) {
    values_.options[find_option(name)] = {value, where};
  }

  void note(const std::string& text) { values_.settings.notes.push_back(text); }

  std::string job() const { return variable("SLURM_JOB_ID")->value; }

  std::optional<Variable> variable(const char* name, const char* other = nullptr) const {
    const auto value = clues_.environment(name);
    if (value && !value->empty()) return Variable{name, *value};
    return other == nullptr ? std::nullopt : variable(other);
  }

  /// Returns nullopt and adds a problem if the value is not a number.
  std::optional<int> number(const char* name, const char* other = nullptr) {
    const auto found = variable(name, other);
    if (!found) return std::nullopt;
    const auto parsed = parse_integer(found->value, 0, kNumberMax);
    if (const auto* wrong = std::get_if<ValueProblem>(&parsed)) {
      fail(*found, wrong->text);
      return std::nullopt;
    }
    return std::get<int>(parsed);
  }

  void fail(const Variable& cause, const std::string& text) {
    if (problem_.empty()) problem_ = cause.text() + ": " + text;
  }

  const SchedulerClues& clues_;
  ConfigValues values_;
  std::string problem_;
};

}  // namespace

SchedulerValues values_from_slurm(const SchedulerClues& clues) {
  return SlurmReader(clues).read();
}

}  // namespace ddprun
