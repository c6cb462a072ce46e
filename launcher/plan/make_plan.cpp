#include "launcher/plan/make_plan.hpp"

#include "launcher/cli/given_values.hpp"
#include "launcher/plan/cpu_plan.hpp"
#include "launcher/plan/log_layout.hpp"
#include "launcher/plan/macros.hpp"
#include "launcher/plan/many_nodes.hpp"
#include "launcher/plan/program_text.hpp"
#include "launcher/plan/resolve_program.hpp"
#include "launcher/plan/shared_gpus.hpp"
#include "launcher/plan/single_node.hpp"
#include "launcher/plan/visible_gpus.hpp"
#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace ddprun {

namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Makes one plan and collects its problems.
class Planner {
 public:
  Planner(const LaunchOptions& options, const HostFacts& facts, std::vector<std::string>& problems)
      : options_(options),
        facts_(facts),
        problems_(problems),
        gpus_(visible_gpus(facts.environment("CUDA_VISIBLE_DEVICES"), facts.installed_gpus,
                           facts.divided_gpus, facts.read_gpus)) {}

  LaunchPlan make() {
    choose_nodes();
    complete_settings();
    choose_command();
    choose_preload();
    choose_store();
    choose_log_folder();
    count_workers();
    check_local_ranks();
    choose_preflight();
    choose_cpus();
    if (!problems_.empty()) return std::move(plan_);
    note_thread_default();
    note_misplaced_options();
    for (int local_rank = 0; local_rank < workers_; ++local_rank) add_worker(local_rank);
    note_unused_filters("duplicate_stdout_filters", options_.duplicate_stdout_filters,
                        &WorkerPlan::standard_output);
    note_unused_filters("duplicate_stderr_filters", options_.duplicate_stderr_filters,
                        &WorkerPlan::standard_error);
    plan_.warnings = with_origins(plan_.warnings, options_);
    return std::move(plan_);
  }

  /// Numbers of CPUs and GPUs and the existence of the program are not checked.
  void find_problems_anywhere() {
    choose_nodes();
    choose_store();
    if (options_.nproc_per_node.kind == WorkerCount::Kind::number) {
      count_workers();
      check_local_ranks();
    }
    check_interpreter_options();
  }

 private:
  void choose_nodes() {
    check_unsupported(options_, problems_, plan_.warnings);
    const auto conf = read_rdzv_conf(options_.rdzv_conf, problems_);
    plan_.checks_users = conf.checks_users;
    if (has_many_nodes(options_)) {
      plan_.nodes = plan_nodes(options_, conf, facts_.host_name, problems_, plan_.warnings);
      if (options_.rdzv_backend == RendezvousBackend::etcd_v2) {
        plan_.notes.emplace_back("--rdzv_backend=etcd-v2: etcd's v3 interface is used, as by etcd");
      }
    } else {
      check_single_node(options_, conf, problems_, plan_.warnings, plan_.notes);
    }
  }

  void complete_settings() {
    plan_.options = options_;
    plan_.run_id = options_.rdzv_id.empty() ? facts_.random_run_id : options_.rdzv_id;
    if (plan_.nodes) plan_.run_id = plan_.nodes->settings.run_id;
    plan_.run_folder_name = run_folder_name(plan_.run_id, facts_.random_name);
    plan_.host_name = facts_.host_name;
    plan_.worker_open_files_max = facts_.open_files_max;
    plan_.stacks = {.when = options_.stacks,
                    .py_spy = find_tool("py-spy", facts_),
                    .gdb = find_tool("gdb", facts_)};
    for (const auto& note : options_.from_config.notes) plan_.notes.push_back(note);
    for (const auto& change : options_.from_config.environment) {
      if (!change.value) plan_.removed_variables.push_back(change.name);
    }
    for (const auto* name : {"COLUMNS", "LINES", "TQDM_NCOLS"}) {
      const auto& removed = plan_.removed_variables;
      const bool is_removed = std::find(removed.begin(), removed.end(), name) != removed.end();
      if (!facts_.environment(name) && !is_removed) plan_.terminal_variables.emplace_back(name);
    }
    const auto error_file = facts_.environment("TORCHELASTIC_ERROR_FILE").value_or("");
    if (!error_file.empty()) plan_.error_file = error_file;
  }

  void choose_store() {
    if (plan_.nodes) {
      plan_.store_host = plan_.nodes->endpoint_host;
      plan_.store_port = plan_.nodes->endpoint_port;
      if (!uses_agent_store()) {
        problem(
            "--agent_store=off: on several nodes ddprun hosts the workers' store; remove the "
            "option, or TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
      }
      if (lacks_libuv()) {
        plan_.warnings.push_back("PyTorch " + pytorch_->version +
                                 " was built without libuv: a program that uses it cannot form "
                                 "process groups of several nodes; install one that has it (pip "
                                 "install torch)");
      }
      return;
    }
    const auto store = store_address(options_, uses_agent_store());
    plan_.store_host = store.host;
    plan_.store_port = store.port;
    plan_.worker_store_port = store.worker_port;
    if (store.worker_port) {
      std::string note = "the worker with rank 0 hosts the store at MASTER_PORT";
      if (lacks_libuv()) {
        note = "PyTorch " + pytorch_->version + " was built without libuv: " + note;
      } else if (program_sets_port_) {
        note = options_.program + " sets MASTER_PORT: " + note +
               "; with --agent_store=on, ddprun does";
      }
      plan_.notes.push_back(note);
    }
    if (store.port != 0 && store.worker_port == store.port) {
      problem(
          "--master_port and --rdzv_endpoint: the workers' store and ddprun's cannot share port " +
          std::to_string(store.port));
    }
  }

  /// The option overrides torchrun's variable; without both, PyTorch and the program decide.
  bool uses_agent_store() const {
    if (options_.agent_store) return *options_.agent_store;
    const auto is_switched_off = facts_.environment("TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
    if (is_switched_off) return *is_switched_off != "1";
    return plan_.nodes || !(lacks_libuv() || program_sets_port_);
  }

  bool lacks_libuv() const { return pytorch_ && pytorch_->lacks_libuv; }

  void choose_log_folder() {
    plan_.temporary_directory = facts_.temporary_directory;
    const auto writes = [](const StreamChoice& choice) {
      return choice.for_all != 0 ||
             std::any_of(choice.by_local_rank.begin(), choice.by_local_rank.end(),
                         [](const auto& entry) { return entry.second != 0; });
    };
    if (options_.log_dir == "/dev/null") return;
    if (!options_.log_dir.empty()) {
      plan_.log_dir = facts_.working_directory / options_.log_dir;
    } else if (writes(options_.redirects) || writes(options_.tee)) {
      plan_.log_dir = facts_.temporary_directory / ("ddprun_" + facts_.random_name);
      plan_.is_log_dir_temporary = true;
      // Notes are not shown, and the random name of the folder is needed to find it.
      if (options_.is_quiet) plan_.warnings.push_back("logs are in " + plan_.log_dir->string());
    }
  }

  void count_workers() {
    using Count = WorkerCount::Kind;
    const auto& wanted = options_.nproc_per_node;
    const int gpus = static_cast<int>(gpus_.size());
    const int cpus = usable_cpus(facts_);
    workers_ = wanted.number;
    if (wanted.kind == Count::gpu) workers_ = gpus;
    if (wanted.kind == Count::cpu) workers_ = cpus;
    if (wanted.kind == Count::automatic) workers_ = gpus > 0 ? gpus : cpus;
    const bool counts_cpus =
        wanted.kind == Count::cpu || (wanted.kind == Count::automatic && gpus == 0);
    if (counts_cpus && facts_.cpus.size() > static_cast<std::size_t>(cpus)) {
      plan_.notes.push_back("the quota of the cgroup leaves " + std::to_string(cpus) + " of " +
                            std::to_string(facts_.cpus.size()) + " CPUs to count on");
    }
    if (wanted.kind == Count::gpu && gpus == 0) {
      const auto visible = facts_.environment("CUDA_VISIBLE_DEVICES");
      const auto reason = facts_.installed_gpus == 0
                              ? std::string("no NVIDIA GPU was found")
                              : "CUDA_VISIBLE_DEVICES=" + visible.value_or("") +
                                    " leaves none of the " + std::to_string(facts_.installed_gpus) +
                                    " GPUs visible";
      problem("--nproc_per_node=gpu: " + reason);
    } else if (workers_ == 0) {
      problem("--nproc_per_node: the number of CPUs cannot be read; give a number");
    }
    if (workers_ > kLocalWorkersMax) {
      problem("--nproc_per_node: " + std::to_string(workers_) + " workers are more than the " +
              std::to_string(kLocalWorkersMax) + " that one node may have");
      workers_ = 0;
    }
    if (wanted.kind != Count::number && wanted.kind != Count::cpu) warn_of_mig();
    const bool needs_gpu_each = options_.virtual_local_rank && !options_.share_gpu;
    if (needs_gpu_each && !gpus_.empty() && workers_ > gpus) {
      problem("--virtual_local_rank: " + std::to_string(workers_) + " workers cannot each have " +
              "one of " + std::to_string(gpus) + " visible GPUs");
    }
  }

  void warn_of_mig() {
    if (workers_ < 2 || options_.virtual_local_rank) return;
    if (gpus_.empty() || gpus_.front().rfind("MIG-", 0) != 0) return;
    plan_.warnings.push_back(
        "CUDA shows a process only the first of several MIG devices; add --virtual_local_rank, "
        "which assigns each worker its own");
  }

  /// Returns "; ranks are 0 to 3" or "; the only rank is 0".
  std::string valid_ranks(const std::string& thing) const {
    if (workers_ == 1) return "; the only " + thing + " is 0";
    return "; " + thing + "s are 0 to " + std::to_string(workers_ - 1);
  }

  void check_local_ranks() {
    if (workers_ == 0) return;
    const auto check = [this](const std::string& option, int local_rank) {
      if (local_rank < workers_) return;
      problem("--" + option + ": there is no local rank " + std::to_string(local_rank) +
              valid_ranks("local rank"));
    };
    for (const auto& [rank, bits] : options_.redirects.by_local_rank) check("redirects", rank);
    for (const auto& [rank, bits] : options_.tee.by_local_rank) check("tee", rank);
    const auto& shown = options_.local_ranks_filter;
    const bool shows_none =
        !shown.empty() &&
        std::all_of(shown.begin(), shown.end(), [this](int rank) { return rank >= workers_; });
    if (shows_none) {
      plan_.warnings.push_back("--local_ranks_filter: hides all output, as local ranks are 0 to " +
                               std::to_string(workers_ - 1));
    }
    for (const int rank : shown) {
      // Like in torchrun: the same script may run on machines with more or fewer workers.
      if (rank < workers_ || shows_none) continue;
      plan_.notes.push_back("--local_ranks_filter: there is no local rank " + std::to_string(rank) +
                            valid_ranks("local rank"));
    }
    const auto check_rank = [this](const std::string& option, int rank) {
      // The number of workers of several nodes is known only after the rendezvous.
      if (options_.nnodes.max > 1 || rank < workers_) return;
      problem("--" + option + ": there is no rank " + std::to_string(rank) + valid_ranks("rank"));
    };
    for (const int rank : options_.ranks_filter) check_rank("ranks_filter", rank);
    if (const auto rank = options_.stdin_worker.rank) check_rank("stdin", *rank);
  }

  bool check_interpreter_options() {
    const bool is_contradiction = options_.module && options_.no_python && !options_.run_path;
    if (is_contradiction) {
      problem("--module and --no_python exclude each other; a module is run by Python");
    }
    return !is_contradiction;
  }

  void choose_command() {
    if (options_.program.empty() && !options_.needs_program) return;
    if (!check_interpreter_options()) return;
    auto resolved = resolve_program(options_, facts_);
    if (const auto* text = std::get_if<std::string>(&resolved)) return problem(*text);
    command_ = std::get<std::vector<std::string>>(resolved);
    plan_.interpreter_origin = interpreter_origin(options_, facts_);
    if (!is_python(command_)) return;
    const auto python = facts_.working_directory / command_[0];
    pytorch_ = facts_.find_pytorch(python, facts_.environment);
    if (!options_.module && !plan_.nodes && !options_.agent_store) {
      const auto program = facts_.working_directory / options_.program;
      program_sets_port_ = sets_master_port(facts_.read_program(program));
    }
    // pip installs it there, and an environment need not be activated.
    if (plan_.stacks.py_spy.empty()) {
      plan_.stacks.py_spy = find_tool("py-spy", facts_, python.parent_path());
    }
  }

  void choose_preload() {
    if (options_.preload.empty() || command_.empty()) return;
    if (plan_.interpreter_origin.empty()) {
      return problem("--preload: " + options_.program + " is not run by Python");
    }
    const bool is_module = options_.module && !options_.run_path;
    plan_.preload = {.modules = options_.preload,
                     .interpreter_words = command_.size() - (is_module ? 2 : 1),
                     .is_module = is_module,
                     .inspects_workers = options_.stacks != StacksWhen::never};
    if (options_.preload.front() == "auto") plan_.preload->modules.clear();
  }

  void choose_preflight() {
    if (!options_.preflight) return;
    auto found = find_preflight(facts_);
    if (const auto* text = std::get_if<std::string>(&found)) return problem(*text);
    plan_.preflight = std::get<std::filesystem::path>(std::move(found));
  }

  void choose_cpus() {
    auto planned = plan_cpus(options_, facts_, gpus_, workers_);
    if (const auto* text = std::get_if<std::string>(&planned)) return problem(*text);
    cpus_ = std::get<CpuPlan>(std::move(planned));
    plan_.notes.insert(plan_.notes.end(), cpus_.notes.begin(), cpus_.notes.end());
  }

  /// True under the same conditions as in torchrun.
  bool is_one_thread_by_default() const {
    return options_.omp_num_threads.empty() && workers_ > 1 &&
           !facts_.environment("OMP_NUM_THREADS");
  }

  void note_thread_default() {
    if (!is_one_thread_by_default()) return;
    auto& messages = options_.is_quiet ? plan_.warnings : plan_.notes;
    messages.emplace_back(
        "OMP_NUM_THREADS is set to 1 for each worker; --omp_num_threads changes that");
  }

  /// Training programs do not have these options.
  void note_misplaced_options() {
    for (const auto& argument : options_.program_arguments) {
      const auto name = argument.substr(0, argument.find('='));
      if (name != "--nproc_per_node" && name != "--nproc-per-node") continue;
      plan_.notes.push_back(name + " follows the program, so it is passed to it");
    }
  }

  /// Returns an empty text if the variable is inherited.
  std::string threads_of(std::size_t local_rank) const {
    if (options_.omp_num_threads == "auto") return std::to_string(cpus_.thread_shares[local_rank]);
    return is_one_thread_by_default() ? "1" : options_.omp_num_threads;
  }

  void add_worker(int local_rank) {
    WorkerPlan worker;
    worker.local_rank = local_rank;
    worker.arguments = command_;
    if (options_.pass_local_rank) {
      const std::string option(local_rank_option(pytorch_ ? pytorch_->version : ""));
      worker.arguments.push_back(option + "=" + std::to_string(local_rank));
    }
    for (const auto& argument : options_.program_arguments) {
      worker.arguments.push_back(expand_macros(argument, local_rank));
    }
    worker.environment = environment_of(local_rank);
    worker.standard_output = target_of(local_rank, 1);
    worker.standard_error = target_of(local_rank, 2);
    const auto& shown = options_.local_ranks_filter;
    worker.is_shown =
        shown.empty() || std::find(shown.begin(), shown.end(), local_rank) != shown.end();
    worker.cpus = cpus_.cpus[static_cast<std::size_t>(local_rank)];
    worker.memory_node = cpus_.memory_nodes[static_cast<std::size_t>(local_rank)];
    plan_.workers.push_back(std::move(worker));
  }

  Environment environment_of(int local_rank) const {
    std::vector<std::string> signals;
    for (const int signal : options_.signals_to_handle) signals.push_back(signal_name(signal));
    Environment environment;
    for (const auto& change : options_.from_config.environment) {
      if (change.value) environment.emplace_back(change.name, *change.value);
    }
    environment.emplace_back("TORCHELASTIC_SIGNALS_TO_HANDLE", join(signals, ","));
    // Only the current name of this variable: PyTorch 2.2 and later warn of the old one.
    if (!facts_.environment("TORCH_NCCL_ASYNC_ERROR_HANDLING")) {
      environment.emplace_back("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    }
    // Python then prints its stack when a signal kills it, and on request.
    if (!facts_.environment("PYTHONFAULTHANDLER")) {
      environment.emplace_back("PYTHONFAULTHANDLER", "1");
    }
    if (plan_.worker_store_port && lacks_libuv() && !facts_.environment("USE_LIBUV")) {
      environment.emplace_back("USE_LIBUV", "0");
    }
    const auto index = static_cast<std::size_t>(local_rank);
    const auto threads = threads_of(index);
    if (!threads.empty()) environment.emplace_back("OMP_NUM_THREADS", threads);
    if (options_.share_gpu) {
      for (auto& variable :
           shared_gpu_environment(facts_.host_name, local_rank, facts_.environment))
        environment.push_back(std::move(variable));
    }
    if (options_.virtual_local_rank) {
      environment.emplace_back("LOCAL_RANK", "0");
      environment.emplace_back("CUDA_VISIBLE_DEVICES", own_gpu(index));
    }
    return environment;
  }

  std::string own_gpu(std::size_t local_rank) const {
    if (gpus_.empty()) return std::to_string(local_rank);
    return gpus_[options_.share_gpu ? local_rank % gpus_.size() : local_rank];
  }

  void note_unused_filters(const std::string& option, const std::vector<std::string>& filters,
                           StreamTarget WorkerPlan::*stream) {
    const auto& workers = plan_.workers;
    const bool has_tee = std::any_of(workers.begin(), workers.end(), [&](const auto& worker) {
      return worker.*stream == StreamTarget::tee;
    });
    if (filters.empty() || (has_tee && plan_.log_dir)) return;
    plan_.notes.push_back("--" + option + " has no effect without --tee and a log folder");
  }

  StreamTarget target_of(int local_rank, int bit) const {
    if ((options_.tee.of(local_rank) & bit) != 0) return StreamTarget::tee;
    if ((options_.redirects.of(local_rank) & bit) != 0) return StreamTarget::file;
    return StreamTarget::console;
  }

  void problem(const std::string& text) { problems_.push_back(text); }

  const LaunchOptions& options_;
  const HostFacts& facts_;
  std::vector<std::string>& problems_;
  const std::vector<std::string> gpus_;
  int workers_ = 0;
  std::vector<std::string> command_;
  std::optional<InstalledPytorch> pytorch_;  ///< that the interpreter would import
  /// See sets_master_port(); false if --agent_store or several nodes decide.
  bool program_sets_port_ = false;
  CpuPlan cpus_;
  LaunchPlan plan_;
};

/// Returns the facts with the environment that a configuration file changes.
HostFacts with_environment(HostFacts facts, const std::vector<EnvironmentChange>& changes) {
  facts.environment = [inherited = facts.environment,
                       changes](const std::string& name) -> std::optional<std::string> {
    for (const auto& change : changes) {
      if (change.name == name) return change.value;
    }
    return inherited(name);
  };
  return facts;
}

}  // namespace

LaunchPlan make_plan(const LaunchOptions& options, const HostFacts& facts,
                     std::vector<std::string>& problems) {
  const auto workers_facts = with_environment(facts, options.from_config.environment);
  return Planner(options, workers_facts, problems).make();
}

std::vector<std::string> problems_anywhere(const LaunchOptions& options,
                                           const EnvironmentLookup& environment) {
  HostFacts facts;
  facts.environment = environment;
  facts = with_environment(std::move(facts), options.from_config.environment);
  std::vector<std::string> problems;
  Planner(options, facts, problems).find_problems_anywhere();
  return problems;
}

}  // namespace ddprun
