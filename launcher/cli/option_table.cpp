#include "launcher/cli/option_table.hpp"

#include "launcher/cli/option_values.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>

namespace ddprun {

namespace {

// A job with more restarts has no end in practice.
constexpr int kRestartsMax = 1'000'000;
constexpr int kThreadsMax = 4096;
constexpr int kNodeRankMax = 1'000'000;

template <typename T, typename Value>
Problem keep(T& into, Parsed<Value> parsed) {
  if (const auto* problem = std::get_if<ValueProblem>(&parsed)) return problem->text;
  into = std::move(std::get<Value>(parsed));
  return std::nullopt;
}

template <auto kMember>
Problem set_flag(LaunchOptions& options, const std::string& value) {
  return keep(options.*kMember, parse_switch(value));
}

template <auto kMember>
Problem set_text(LaunchOptions& options, const std::string& value) {
  options.*kMember = value;
  return std::nullopt;
}

/// For options whose value must not be empty.
template <auto kMember>
Problem set_name(LaunchOptions& options, const std::string& value) {
  if (value.empty()) return "is empty";
  return set_text<kMember>(options, value);
}

Problem set_numa_binding(LaunchOptions& options, const std::string& value) {
  using Kind = Affinity::Kind;
  return keep(options.numa_binding.kind, parse_choice<Kind>(value, {{"node", Kind::node},
                                                                    {"socket", Kind::socket},
                                                                    {"exclusive", Kind::exclusive},
                                                                    {"core-complex", Kind::l3}}));
}

Problem set_exit_code(LaunchOptions& options, const std::string& value) {
  using Policy = ExitCodePolicy;
  return keep(options.exit_code, parse_choice<Policy>(value, {{"torchrun", Policy::torchrun},
                                                              {"worker", Policy::worker}}));
}

Problem set_agent_store(LaunchOptions& options, const std::string& value) {
  return keep(options.agent_store, parse_choice<bool>(value, {{"on", true}, {"off", false}}));
}

Problem set_stacks(LaunchOptions& options, const std::string& value) {
  using When = StacksWhen;
  return keep(options.stacks,
              parse_choice<When>(
                  value, {{"never", When::never}, {"kill", When::kill}, {"stop", When::stop}}));
}

Problem set_on_hang(LaunchOptions& options, const std::string& value) {
  return keep(options.on_hang, parse_choice<OnHang>(value, {{"report", OnHang::report},
                                                            {"restart", OnHang::restart},
                                                            {"stop", OnHang::stop}}));
}

Problem set_omp_num_threads(LaunchOptions& options, const std::string& value) {
  int threads = 0;
  if (value != "auto" && keep(threads, parse_integer(value, 1, kThreadsMax))) {
    return "is neither auto nor an integer from 1 to " + std::to_string(kThreadsMax);
  }
  options.omp_num_threads = value;
  return std::nullopt;
}

Problem set_master_port(LaunchOptions& options, const std::string& value) {
  int port = 0;
  auto problem = keep(port, parse_integer(value, 0, 65535));
  if (!problem) options.master_port = static_cast<std::uint16_t>(port);
  return problem;
}

Problem set_prefix(LaunchOptions& options, const std::string& value) {
  return keep(options.prefix, parse_prefix_template(value, UnknownFields::are_problems));
}

Problem set_torchrun_prefix(LaunchOptions& options, const std::string& value) {
  return keep(options.prefix, parse_prefix_template(value, UnknownFields::are_text));
}

Problem set_security(LaunchOptions& options, const std::string& value) {
  return keep(options.is_open, parse_choice<bool>(value, {{"open", true}}));
}

Problem no_action(LaunchOptions&, const std::string&) {
  return std::nullopt;
}

using Options = LaunchOptions;
using Section = ConfigSection;
using Text = const std::string&;

constexpr OptionEntry kWorkers[] = {
    {"nproc_per_node", 0, "N|auto|cpu|gpu", OptionGroup::workers, Section::node,
     "PET_NPROC_PER_NODE", "1",
     "Number of workers on this node. auto: one per GPU, or one per CPU if there is no GPU.",
     [](Options& o, Text v) { return keep(o.nproc_per_node, parse_worker_count(v)); },
     "gpu: one worker per visible NVIDIA GPU or MIG device. cpu: one worker per CPU that ddprun "
     "may use, limited by the CPU quota of its cgroup."},
    {"module", 'm', "", OptionGroup::workers, Section::job, "PET_MODULE", "",
     "Run the program as a Python module, like python3 -m.", set_flag<&Options::module>},
    {"no_python", 0, "", OptionGroup::workers, Section::job, "PET_NO_PYTHON", "",
     "Execute the program directly, even if its name ends in .py.", set_flag<&Options::no_python>},
    {"run_path", 0, "", OptionGroup::workers, Section::job, "PET_RUN_PATH", "",
     "Run the program as a Python script, whatever its name; overrides --module and --no_python.",
     set_flag<&Options::run_path>},
    {"role", 0, "NAME", OptionGroup::workers, Section::job, "PET_ROLE", "default",
     "Role of the workers; also the first part of their output prefix.", set_text<&Options::role>,
     "The role may be empty. See --prefix."},
    {"virtual_local_rank", 0, "", OptionGroup::workers, Section::node, "PET_VIRTUAL_LOCAL_RANK", "",
     "Set LOCAL_RANK=0 in each worker and make only its own GPU visible to it.",
     set_flag<&Options::virtual_local_rank>,
     "CUDA_VISIBLE_DEVICES contains only the GPU or MIG device of the worker's local rank."},
    {"numa_binding", 0, "node|socket|exclusive|core-complex", OptionGroup::workers, Section::node,
     "", "", "torchrun's name of --affinity; core-complex is equivalent to --affinity=l3.",
     set_numa_binding},
    {"start_method", 0, "spawn|fork|forkserver", OptionGroup::workers, Section::job,
     "PET_START_METHOD", "spawn", "Accepted for torchrun compatibility; has no effect on programs.",
     [](Options& o, Text v) {
       return keep(o.start_method, parse_word(v, {"spawn", "fork", "forkserver"}));
     }},
    {"use_env", 0, "", OptionGroup::workers, Section::job, "", "",
     "Do not pass --local-rank to the program when called as torch.distributed.launch.",
     set_flag<&Options::use_env>,
     "See \"Other names\" and --pass_local_rank. LOCAL_RANK is always set."},
};

constexpr OptionEntry kFailure[] = {
    {"max_restarts", 0, "N", OptionGroup::failure, Section::restart, "PET_MAX_RESTARTS", "0",
     "Maximum number of worker-group restarts after a failure.",
     [](Options& o, Text v) { return keep(o.max_restarts, parse_integer(v, 0, kRestartsMax)); },
     "See \"Restarts\"."},
    {"monitor_interval", 0, "SECONDS", OptionGroup::failure, Section::restart,
     "PET_MONITOR_INTERVAL", "0.1",
     "Accepted for torchrun compatibility; has no effect because ddprun does not poll.",
     [](Options& o, Text v) { return keep(o.monitor_interval, parse_seconds(v)); }},
    {"signals_to_handle", 0, "SIGNAL,...", OptionGroup::failure, Section::signals,
     "PET_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     "Signals that stop the workers and end the run.",
     [](Options& o, Text v) { return keep(o.signals_to_handle, parse_signals(v)); },
     "See \"Signals\"."},
    {"shutdown_timeout", 0, "SECONDS", OptionGroup::failure, Section::signals,
     "PET_SHUTDOWN_TIMEOUT TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30",
     "Time limit for workers to stop before they are killed; applies to signals, failures and "
     "restarts.",
     [](Options& o, Text v) { return keep(o.shutdown_timeout, parse_seconds(v)); }},
};

constexpr OptionEntry kOutput[] = {
    {"log_dir", 0, "DIR", OptionGroup::output, Section::logs, "PET_LOG_DIR",
     "a new temporary folder if a stream is written to files",
     "Folder for log files of workers, by run, attempt and local rank. /dev/null disables log "
     "files.",
     set_text<&Options::log_dir>,
     "The temporary folder is not removed; the first line that ddprun prints shows its path. See "
     "\"FILES\"."},
    {"redirects", 'r', "0-3|RANK:0-3,...", OptionGroup::output, Section::logs, "PET_REDIRECTS", "0",
     "Streams written to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both; for all "
     "workers, or by local rank as in 0:3,12:1.",
     [](Options& o, Text v) { return keep(o.redirects, parse_stream_choice(v)); }},
    {"tee", 't', "0-3|RANK:0-3,...", OptionGroup::output, Section::logs, "PET_TEE", "0",
     "Streams written to both files and the console; same values as --redirects.",
     [](Options& o, Text v) { return keep(o.tee, parse_stream_choice(v)); }},
    {"local_ranks_filter", 0, "RANK,...", OptionGroup::output, Section::logs,
     "PET_LOCAL_RANKS_FILTER", "all workers",
     "Local ranks whose output is shown on the console. Log files are written for all workers.",
     [](Options& o, Text v) { return keep(o.local_ranks_filter, parse_local_ranks(v)); }},
    {"duplicate_stdout_filters", 0, "TEXT,...", OptionGroup::output, Section::logs,
     "PET_DUPLICATE_STDOUT_FILTERS", "",
     "Copy stdout lines of workers with --tee that contain one of these texts to "
     "filtered_stdout.log of the attempt. Write two commas for a literal comma.",
     [](Options& o, Text v) { return keep(o.duplicate_stdout_filters, parse_filters(v)); },
     "The copied lines have prefixes. See \"FILES\"."},
    {"duplicate_stderr_filters", 0, "TEXT,...", OptionGroup::output, Section::logs,
     "PET_DUPLICATE_STDERR_FILTERS", "",
     "Like --duplicate_stdout_filters, for stderr and filtered_stderr.log.",
     [](Options& o, Text v) { return keep(o.duplicate_stderr_filters, parse_filters(v)); }},
    {"log_line_prefix_template", 0, "TEMPLATE|none", OptionGroup::output, Section::logs,
     "PET_LOG_LINE_PREFIX_TEMPLATE TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
     "[${role_name}${local_rank}]:",
     "Prefix of each output line on the console. Fields: ${role_name}, ${local_rank}, ${rank}, "
     "${hostname} and the fields of --prefix. Others are printed unchanged.",
     set_torchrun_prefix},
    {"logs_specs", 0, "NAME", OptionGroup::output, Section::logs, "", "",
     "Not supported: in torchrun, the name of a Python plug-in for log layouts.",
     set_text<&Options::logs_specs>},
    {"event_log_handler", 0, "null|NAME", OptionGroup::output, Section::logs,
     "PET_EVENT_LOG_HANDLER", "null",
     "Accepted for torchrun compatibility; has no effect, and names of Python plug-ins other than "
     "null cause a warning. See --events.",
     set_text<&Options::event_log_handler>},
};

constexpr OptionEntry kNodes[] = {
    {"nnodes", 0, "N|MIN:MAX", OptionGroup::nodes, Section::rendezvous, "PET_NNODES", "1:1",
     "Number of nodes, or the minimum and maximum. Run the same command on each node.",
     [](Options& o, Text v) { return keep(o.nnodes, parse_node_range(v)); },
     "See \"SEVERAL NODES\"."},
    {"standalone", 0, "", OptionGroup::nodes, Section::rendezvous, "PET_STANDALONE", "",
     "Run on one node, with the store on a free loopback port; address and port options of this "
     "group are ignored.",
     set_flag<&Options::standalone>},
    {"rdzv_backend", 0, "static|c10d|etcd", OptionGroup::nodes, Section::rendezvous,
     "PET_RDZV_BACKEND", "static",
     "Rendezvous backend. static: each node has a --node_rank; c10d: nodes join in any order; "
     "etcd: like c10d, but the run survives the loss of any node.",
     [](Options& o, Text v) { return keep(o.rdzv_backend, parse_rendezvous_backend(v)); },
     "On one node, static and c10d are equivalent, and etcd is ignored."},
    {"rdzv_endpoint", 0, "HOST[:PORT],...", OptionGroup::nodes, Section::rendezvous,
     "PET_RDZV_ENDPOINT", "",
     "Address of the rendezvous and the store, the same on all nodes; with etcd, addresses of the "
     "etcd servers.",
     [](Options& o, Text v) { return keep(o.rdzv_endpoint, parse_endpoints(v)); },
     "On several nodes the default port is 29500 with static, 29400 with c10d and 2379 with etcd; "
     "on one node a free port, which 0 also selects."},
    {"rdzv_id", 0, "ID", OptionGroup::nodes, Section::job, "PET_RDZV_ID",
     "random on one node, none on several nodes",
     "Name of the run, the same on all nodes; TORCHELASTIC_RUN_ID in workers.",
     set_text<&Options::rdzv_id>, "Required with etcd."},
    {"rdzv_conf", 0, "KEY=VALUE,...", OptionGroup::nodes, Section::rendezvous, "PET_RDZV_CONF", "",
     "Rendezvous settings, such as timeouts.",
     [](Options& o, Text v) { return keep(o.rdzv_conf, parse_key_values(v)); },
     "See \"Settings of the rendezvous\". On one node, settings other than check_users are checked "
     "but have no effect."},
    {"node_rank", 0, "N", OptionGroup::nodes, Section::none, "PET_NODE_RANK", "0",
     "Rank of this node.",
     [](Options& o, Text v) { return keep(o.node_rank, parse_integer(v, 0, kNodeRankMax)); },
     "Required with static on several nodes, except on the node that the endpoint names."},
    {"master_addr", 0, "HOST", OptionGroup::nodes, Section::rendezvous, "PET_MASTER_ADDR",
     "127.0.0.1", "Address of the store; with static, the address of the node with rank 0.",
     set_text<&Options::master_addr>, "--rdzv_endpoint overrides --master_addr and --master_port."},
    {"master_port", 0, "PORT", OptionGroup::nodes, Section::rendezvous, "PET_MASTER_PORT",
     "a free port", "Port of the store.", set_master_port,
     "With etcd, this is the port on the elected node."},
    {"local_addr", 0, "HOST", OptionGroup::nodes, Section::node, "PET_LOCAL_ADDR",
     "the host name, or 127.0.0.1 on one node",
     "Address of this node, used by the other nodes and in reports.",
     set_text<&Options::local_addr>,
     "In reports, the node's name in a configuration file takes precedence. If another node "
     "connects from this address, a warning is logged. On one node, the store listens on this "
     "address unless --master_addr or --rdzv_endpoint is given."},
};

constexpr OptionEntry kOwn[] = {
    {"affinity", 0, "auto|none|cores|exclusive|node|socket|l3|LIST;...", OptionGroup::own,
     Section::node, "", "auto",
     "CPUs of each worker: an equal share of the cores near its GPU, all CPUs of a NUMA node, "
     "socket or L3 cache, or lists by local rank as in 0-7;8-15.",
     [](Options& o, Text v) { return keep(o.affinity, parse_affinity(v)); },
     "auto is equivalent to node if --nproc_per_node counts GPUs or --virtual_local_rank assigns "
     "them, their NUMA nodes are known, and ddprun may use CPUs of several nodes, of which no "
     "worker gets less than half of an equal share; otherwise to none. "
     "none leaves the choice to the kernel. cores gives each worker an equal share of adjacent "
     "physical cores: on the NUMA node of the GPU with its local rank or, if that node is unknown, "
     "on the NUMA nodes in turn, in proportion to their cores. If there are more workers than "
     "cores, some workers share a core; with exclusive, this is an error. node gives each worker "
     "all CPUs of its NUMA node, socket all CPUs of its socket, and l3 all CPUs of the NUMA node "
     "that share a last-level cache, assigning the caches in turn. All values select only CPUs "
     "that ddprun may use.\n\nThe assignment is printed at the start. Workers whose CPUs are on "
     "one NUMA node prefer its memory."},
    {"prefix", 0, "TEMPLATE|none", OptionGroup::own, Section::logs, "", "",
     "Short for --log_line_prefix_template, which it overrides. Additional fields: ${node_rank}, "
     "${attempt}, ${stream}, ${time}; others are errors. none disables the prefix.",
     set_prefix,
     "${stream} is stdout or stderr, ${time} is the time at which the line began, and $$ is a "
     "dollar sign. An empty template also disables the prefix."},
    {"ranks_filter", 0, "RANK,...", OptionGroup::own, Section::logs, "", "all workers",
     "Like --local_ranks_filter, but by global rank.",
     [](Options& o, Text v) { return keep(o.ranks_filter, parse_ranks(v)); },
     "If both are given, only output of workers that both select is shown."},
    {"stdin", 0, "RANK|auto|none", OptionGroup::own, Section::job, "", "auto",
     "Worker that reads standard input; for all others it is empty. auto: rank 0.",
     [](Options& o, Text v) { return keep(o.stdin_worker, parse_stdin_worker(v)); },
     "This is useful for a debugger such as pdb, or for data from a pipe. After a restart, the "
     "worker continues where its predecessor stopped reading. Terminal input is forwarded only "
     "while ddprun is in the foreground."},
    {"preload", 0, "MODULE,...|auto", OptionGroup::own, Section::job, "", "",
     "Import these Python modules once; each worker is a fork of the interpreter that has imported "
     "them. auto: the modules that the program imports at its beginning.",
     [](Options& o, Text v) { return keep(o.preload, parse_modules(v)); },
     "Restarts then do not wait for imports. See \"Preloading\"."},
    {"exit_code", 0, "torchrun|worker", OptionGroup::own, Section::restart, "", "torchrun",
     "Exit code after a worker failure: 1 as with torchrun, or the worker's exit code (128 plus "
     "the signal number if it was killed).",
     set_exit_code, "See \"EXIT STATUS\"."},
    {"restart_window", 0, "SECONDS", OptionGroup::own, Section::restart, "", "0",
     "Only restarts within this time count against --max_restarts; 0: all restarts count.",
     [](Options& o, Text v) { return keep(o.restart_window, parse_seconds(v)); },
     "A run of several weeks then survives occasional failures, while a program that always fails "
     "still ends.",
     "window"},
    {"hang_timeout", 0, "SECONDS|auto|off", OptionGroup::own, Section::restart, "", "auto",
     "Time without progress after which workers count as hung. auto: 5 s for a stopped process, "
     "otherwise derived from the waits in this run.",
     [](Options& o, Text v) { return keep(o.hang_timeout, parse_hang_timeout(v)); },
     "See \"Hangs and slow ranks\"."},
    {"on_hang", 0, "report|restart|stop", OptionGroup::own, Section::restart, "", "restart",
     "Reaction to hung workers. restart: restart all workers while restarts are left; stop: end "
     "the run as failed.",
     set_on_hang,
     "Without restarts left, restart is equivalent to report. See \"Hangs and slow ranks\"."},
    {"agent_store", 0, "on|off", OptionGroup::own, Section::rendezvous, "",
     "on, or off if TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 1 or the script spawns processes with a "
     "MASTER_PORT of its own",
     "off: the PyTorch worker with rank 0, not ddprun, hosts the store at MASTER_PORT; for "
     "programs with process groups at their own ports.",
     set_agent_store, "See \"Store\"."},
    {"events", 0, "FILE", OptionGroup::own, Section::logs, "", "",
     "Append events to this file as JSON lines.", set_name<&Options::events>, "See \"Events\"."},
    {"omp_num_threads", 0, "N|auto", OptionGroup::own, Section::node, "",
     "1 with several workers, unless the variable is already set",
     "OMP_NUM_THREADS of each worker. auto: the worker's share of the CPUs, or the number of its "
     "cores if the worker is bound to CPUs.",
     set_omp_num_threads,
     "The value of auto is limited by the CPU quota of the cgroup. See --affinity."},
    {"stacks", 0, "never|kill|stop", OptionGroup::own, Section::signals, "", "kill",
     "When to record stacks of workers. kill: before killing workers that do not stop, and for "
     "late ranks when a collective times out; stop: also before stopping workers. SIGRTMIN records "
     "stacks at any time.",
     set_stacks,
     "A rank on this node counts as late if it has not entered the collective of the worker "
     "runtime. See \"Stacks\"."},
    {"pass_local_rank", 0, "", OptionGroup::own, Section::job, "", "",
     "Insert --local-rank=N before the arguments of the program, like torch.distributed.launch; "
     "for PyTorch before 2.0, --local_rank=N.",
     set_flag<&Options::pass_local_rank>,
     "The version is read from torch/version.py in the package folders of the interpreter; without "
     "this file, --local-rank is inserted."},
    {"share_gpu", 0, "", OptionGroup::own, Section::job, "", "",
     "Let workers share GPUs if there are more workers than GPUs; for tests.",
     set_flag<&Options::share_gpu>,
     "Local rank n gets GPU n modulo the number of GPUs. NCCL treats the workers as separate "
     "machines and connects them by sockets, which is slow. DDPRUN_SHARE_GPU=1 is set in the "
     "workers, and so are the variables that NCCL needs for this, unless already set (NCCL_HOSTID, "
     "NCCL_NET, NCCL_MAX_NCHANNELS and others)."},
    {"preflight", 0, "", OptionGroup::own, Section::job, "", "",
     "Check the GPUs or cores of each node and their connections before the workers start; a node "
     "that fails the check starts no workers.",
     set_flag<&Options::preflight>, "See \"Preflight\"."},
    {"config", 0, "FILE", OptionGroup::own, Section::none, "", "",
     "Read the program and options from this JSON file, the same on all nodes. Arguments and "
     "environment variables override the file.",
     set_name<&Options::config>, "See \"Configuration files\"."},
    {"node_name", 0, "NAME", OptionGroup::own, Section::none, "DDPRUN_NODE",
     "determined by host name or address", "Name of this node in the --config file.",
     set_name<&Options::node_name>},
    {"secret_file", 0, "FILE", OptionGroup::own, Section::security, "", "",
     "File with the shared secret of the run, the same on all nodes and readable by its owner "
     "only; 'ddprun keygen FILE' creates the file.",
     set_name<&Options::secret_file>, "See \"Security\"."},
    {"security", 0, "open", OptionGroup::own, Section::security, "", "",
     "open: runs on several nodes need no secret; any machine that can reach the nodes can join.",
     set_security, "See \"Security\".", "mode"},
    {"ssh", 0, "", OptionGroup::own, Section::none, "", "",
     "Start ddprun over ssh on all nodes listed in the --config file, and show their output.",
     set_flag<&Options::ssh>, "See \"Starting by ssh\"."},
    {"dry_run", 0, "", OptionGroup::own, Section::none, "", "",
     "Print what would run, on which nodes and with which environment, and exit.",
     set_flag<&Options::dry_run>,
     "Invalid options, programs and input files are reported too, with exit status 2. Addresses, "
     "ports and log folders are not checked."},
};

constexpr OptionEntry kInformation[] = {
    {"help", 'h', "", OptionGroup::information, Section::none, "", "", "Print this help.",
     no_action},
    {"print_completion", 0, "bash|zsh", OptionGroup::information, Section::none, "", "",
     "Print the completion script for a shell.", no_action,
     "The script completes the command ddprun, or the torchrun name by which ddprun was called."},
    {"version", 0, "", OptionGroup::information, Section::none, "", "", "Print the version.",
     no_action},
};

bool is_lower_case(char letter) {
  return letter >= 'a' && letter <= 'z';
}

/// One alternative of the name of a value: "N", "auto", "SIGNAL,...", "KEY=VALUE,...".
void add_alternative(ValueShape& shape, const std::string& name) {
  if (name.ends_with("...")) {
    shape.takes_text = true;
    shape.list_separator = name[name.size() - 4];
    for (const char separator : {'=', ':'}) {
      if (name.find(separator) != std::string::npos) shape.map_separator = separator;
    }
  } else if (name == "N" || name == "SECONDS" || name == "PORT" || name == "0-3" ||
             name == "RANK") {
    shape.takes_number = true;
  } else if (is_lower_case(name[0])) {
    shape.words.push_back(name);
  } else {
    shape.takes_text = true;
  }
}

constexpr auto kCount = std::size(kWorkers) + std::size(kFailure) + std::size(kOutput) +
                        std::size(kNodes) + std::size(kOwn) + std::size(kInformation);

std::array<OptionEntry, kCount> joined_table() {
  std::array<OptionEntry, kCount> table;
  auto end = std::copy(std::begin(kWorkers), std::end(kWorkers), table.begin());
  end = std::copy(std::begin(kFailure), std::end(kFailure), end);
  end = std::copy(std::begin(kOutput), std::end(kOutput), end);
  end = std::copy(std::begin(kNodes), std::end(kNodes), end);
  end = std::copy(std::begin(kOwn), std::end(kOwn), end);
  std::copy(std::begin(kInformation), std::end(kInformation), end);
  return table;
}

}  // namespace

std::span<const OptionEntry> option_table() {
  static const auto table = joined_table();
  return table;
}

std::string_view title_of(OptionGroup group) {
  switch (group) {
    case OptionGroup::workers:
      return "Workers";
    case OptionGroup::failure:
      return "Failures and shutdown";
    case OptionGroup::output:
      return "Output";
    case OptionGroup::nodes:
      return "Nodes and rendezvous";
    case OptionGroup::own:
      return "Not in torchrun";
    case OptionGroup::information:
      return "Information";
  }
  return "";
}

ValueShape shape_of(const OptionEntry& entry) {
  ValueShape shape;
  if (entry.is_flag()) {
    shape.takes_boolean = true;
    return shape;
  }
  for (const auto& alternative : split(entry.value_name, '|')) add_alternative(shape, alternative);
  return shape;
}

std::string canonical_name(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

const OptionEntry* find_option(std::string_view name) {
  const auto wanted = canonical_name(name);
  for (const auto& entry : option_table()) {
    if (entry.name == wanted) return &entry;
  }
  return nullptr;
}

}  // namespace ddprun
