#include "launcher/cli/option_table.hpp"

#include "launcher/cli/option_values.hpp"

#include <algorithm>
#include <array>

namespace ddprun {

namespace {

// A job that restarts more often than this has no end in practice.
constexpr int kRestartsMax = 1'000'000;
constexpr int kThreadsMax = 4096;
constexpr int kNodeRankMax = 1'000'000;

template <typename T, typename Value>
std::string keep(T& into, Parsed<Value> parsed) {
  if (const auto* problem = std::get_if<ValueProblem>(&parsed)) return problem->text;
  into = std::move(std::get<Value>(parsed));
  return {};
}

template <auto kMember>
std::string set_flag(LaunchOptions& options, const std::string& value) {
  return keep(options.*kMember, parse_switch(value));
}

template <auto kMember>
std::string set_text(LaunchOptions& options, const std::string& value) {
  options.*kMember = value;
  return {};
}

/// For options whose value must not be empty.
template <auto kMember>
std::string set_name(LaunchOptions& options, const std::string& value) {
  if (value.empty()) return "is empty";
  return set_text<kMember>(options, value);
}

std::string set_numa_binding(LaunchOptions& options, const std::string& value) {
  using Kind = Affinity::Kind;
  return keep(options.numa_binding.kind, parse_choice<Kind>(value, {{"node", Kind::node},
                                                                    {"socket", Kind::socket},
                                                                    {"exclusive", Kind::exclusive},
                                                                    {"core-complex", Kind::l3}}));
}

std::string set_exit_code(LaunchOptions& options, const std::string& value) {
  using Policy = ExitCodePolicy;
  return keep(options.exit_code, parse_choice<Policy>(value, {{"torchrun", Policy::torchrun},
                                                              {"worker", Policy::worker}}));
}

std::string set_agent_store(LaunchOptions& options, const std::string& value) {
  return keep(options.agent_store, parse_choice<bool>(value, {{"on", true}, {"off", false}}));
}

std::string set_stacks(LaunchOptions& options, const std::string& value) {
  using When = StacksWhen;
  return keep(options.stacks,
              parse_choice<When>(
                  value, {{"never", When::never}, {"kill", When::kill}, {"stop", When::stop}}));
}

std::string set_omp_num_threads(LaunchOptions& options, const std::string& value) {
  int threads = 0;
  if (value != "auto" && !keep(threads, parse_integer(value, 1, kThreadsMax)).empty()) {
    return "is neither auto nor an integer from 1 to " + std::to_string(kThreadsMax);
  }
  options.omp_num_threads = value;
  return {};
}

std::string set_master_port(LaunchOptions& options, const std::string& value) {
  int port = 0;
  auto problem = keep(port, parse_integer(value, 0, 65535));
  if (problem.empty()) options.master_port = static_cast<std::uint16_t>(port);
  return problem;
}

std::string set_prefix(LaunchOptions& options, const std::string& value) {
  return keep(options.prefix, parse_prefix_template(value));
}

std::string set_security(LaunchOptions& options, const std::string& value) {
  return keep(options.is_open, parse_choice<bool>(value, {{"open", true}}));
}

std::string no_action(LaunchOptions&, const std::string&) {
  return {};
}

using Options = LaunchOptions;
using Text = const std::string&;

constexpr OptionEntry kWorkers[] = {
    {"nproc_per_node", 0, "N|auto|cpu|gpu", OptionGroup::workers, "PET_NPROC_PER_NODE", "1",
     "Number of workers. auto: one for each GPU, or for each CPU if there is no GPU.",
     [](Options& o, Text v) { return keep(o.nproc_per_node, parse_worker_count(v)); }},
    {"module", 'm', "", OptionGroup::workers, "PET_MODULE", "",
     "The program is the name of a Python module, run as python3 -m does.",
     set_flag<&Options::module>},
    {"no_python", 0, "", OptionGroup::workers, "PET_NO_PYTHON", "",
     "Execute the program itself, even if its name ends in .py.", set_flag<&Options::no_python>},
    {"run_path", 0, "", OptionGroup::workers, "PET_RUN_PATH", "",
     "Run the program as a Python script, even with --module or --no_python.",
     set_flag<&Options::run_path>},
    {"role", 0, "NAME", OptionGroup::workers, "PET_ROLE", "default",
     "Role of the workers; also begins the lines of their output.", set_text<&Options::role>},
    {"virtual_local_rank", 0, "", OptionGroup::workers, "PET_VIRTUAL_LOCAL_RANK", "",
     "Each worker gets LOCAL_RANK=0 and sees one GPU only.",
     set_flag<&Options::virtual_local_rank>},
    {"numa_binding", 0, "node|socket|exclusive|core-complex", OptionGroup::workers, "", "",
     "Bind each worker to CPUs near its GPU, or spread the workers over the NUMA nodes.",
     set_numa_binding},
    {"start_method", 0, "spawn|fork|forkserver", OptionGroup::workers, "PET_START_METHOD", "spawn",
     "Accepted for torchrun's sake: it concerns Python functions only, never programs.",
     [](Options& o, Text v) {
       return keep(o.start_method, parse_word(v, {"spawn", "fork", "forkserver"}));
     }},
    {"use_env", 0, "", OptionGroup::workers, "", "",
     "No --local-rank before the program's arguments. Only torch.distributed.launch puts it there.",
     set_flag<&Options::use_env>},
};

constexpr OptionEntry kFailure[] = {
    {"max_restarts", 0, "N", OptionGroup::failure, "PET_MAX_RESTARTS", "0",
     "Maximum number of restarts of all workers after a failure.",
     [](Options& o, Text v) { return keep(o.max_restarts, parse_integer(v, 0, kRestartsMax)); }},
    {"monitor_interval", 0, "SECONDS", OptionGroup::failure, "PET_MONITOR_INTERVAL", "0.1",
     "Accepted for torchrun's sake: ddprun learns of a worker's end from the kernel, at once.",
     [](Options& o, Text v) { return keep(o.monitor_interval, parse_seconds(v)); }},
    {"signals_to_handle", 0, "SIGNAL,...", OptionGroup::failure, "PET_SIGNALS_TO_HANDLE",
     "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "Signals that stop the workers and end the run in order.",
     [](Options& o, Text v) { return keep(o.signals_to_handle, parse_signals(v)); }},
    {"shutdown_timeout", 0, "SECONDS", OptionGroup::failure,
     "PET_SHUTDOWN_TIMEOUT TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30",
     "Time from asking the workers to stop until they are killed.",
     [](Options& o, Text v) { return keep(o.shutdown_timeout, parse_seconds(v)); }},
};

constexpr OptionEntry kOutput[] = {
    {"log_dir", 0, "DIR", OptionGroup::output, "PET_LOG_DIR", "a new temporary folder if needed",
     "Folder for the workers' output, by run, attempt and local rank. /dev/null keeps none.",
     set_text<&Options::log_dir>},
    {"redirects", 'r', "0-3|RANK:0-3,...", OptionGroup::output, "PET_REDIRECTS", "0",
     "Streams written to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both; for "
     "all workers or by local rank.",
     [](Options& o, Text v) { return keep(o.redirects, parse_stream_choice(v)); }},
    {"tee", 't', "0-3|RANK:0-3,...", OptionGroup::output, "PET_TEE", "0",
     "Streams written to files and to the console.",
     [](Options& o, Text v) { return keep(o.tee, parse_stream_choice(v)); }},
    {"local_ranks_filter", 0, "RANK,...", OptionGroup::output, "PET_LOCAL_RANKS_FILTER",
     "all workers", "Show only these workers' output on the console. Files are kept for all.",
     [](Options& o, Text v) { return keep(o.local_ranks_filter, parse_local_ranks(v)); }},
    {"duplicate_stdout_filters", 0, "TEXT,...", OptionGroup::output, "PET_DUPLICATE_STDOUT_FILTERS",
     "",
     "Lines of --tee on standard output with one of these texts also go to filtered_stdout.log of "
     "the attempt. Two commas are one in a text.",
     [](Options& o, Text v) { return keep(o.duplicate_stdout_filters, parse_filters(v)); }},
    {"duplicate_stderr_filters", 0, "TEXT,...", OptionGroup::output, "PET_DUPLICATE_STDERR_FILTERS",
     "", "The same for standard error and filtered_stderr.log.",
     [](Options& o, Text v) { return keep(o.duplicate_stderr_filters, parse_filters(v)); }},
    {"log_line_prefix_template", 0, "TEMPLATE", OptionGroup::output,
     "PET_LOG_LINE_PREFIX_TEMPLATE TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
     "[${role_name}${local_rank}]:",
     "What stands before each line of the workers' output. Fields: ${role_name}, ${local_rank}, "
     "${rank}, ${hostname} and those of --prefix.",
     set_prefix},
    {"logs_specs", 0, "NAME", OptionGroup::output, "", "",
     "Not supported: names a Python plug-in for the layout of the logs.",
     set_text<&Options::logs_specs>},
    {"event_log_handler", 0, "NAME", OptionGroup::output, "PET_EVENT_LOG_HANDLER", "null",
     "Accepted for torchrun compatibility; names a Python plug-in. See --events.",
     set_text<&Options::event_log_handler>},
};

constexpr OptionEntry kNodes[] = {
    {"nnodes", 0, "N|MIN:MAX", OptionGroup::nodes, "PET_NNODES", "1:1",
     "Number of nodes, or the least and the most: the same command is typed on each of them.",
     [](Options& o, Text v) { return keep(o.nnodes, parse_node_range(v)); }},
    {"standalone", 0, "", OptionGroup::nodes, "PET_STANDALONE", "",
     "One node, with a store on a free port of the loopback address.",
     set_flag<&Options::standalone>},
    {"rdzv_backend", 0, "static|c10d|etcd", OptionGroup::nodes, "PET_RDZV_BACKEND", "static",
     "How nodes find each other: static, by their --node_rank; c10d, in any order and number that "
     "--nnodes allows; etcd, the same through an etcd, and no node is needed for the others to go "
     "on.",
     [](Options& o, Text v) { return keep(o.rdzv_backend, parse_rendezvous_backend(v)); }},
    {"rdzv_endpoint", 0, "HOST[:PORT],...", OptionGroup::nodes, "PET_RDZV_ENDPOINT", "",
     "Address and port of the node that hosts rendezvous and store, the same on all nodes; or "
     "those "
     "of etcd.",
     [](Options& o, Text v) { return keep(o.rdzv_endpoint, parse_endpoints(v)); }},
    {"rdzv_id", 0, "ID", OptionGroup::nodes, "PET_RDZV_ID", "a random one",
     "Name of the run, the same on all nodes; workers see it as TORCHELASTIC_RUN_ID.",
     set_text<&Options::rdzv_id>},
    {"rdzv_conf", 0, "KEY=VALUE,...", OptionGroup::nodes, "PET_RDZV_CONF", "",
     "Time limits for nodes to meet and to be missed; see ddprun(1). No effect on one node.",
     [](Options& o, Text v) { return keep(o.rdzv_conf, parse_key_values(v)); }},
    {"node_rank", 0, "N", OptionGroup::nodes, "PET_NODE_RANK", "0",
     "Place of this node among the others.",
     [](Options& o, Text v) { return keep(o.node_rank, parse_integer(v, 0, kNodeRankMax)); }},
    {"master_addr", 0, "HOST", OptionGroup::nodes, "PET_MASTER_ADDR", "127.0.0.1",
     "Address of the node on which the store listens.", set_text<&Options::master_addr>},
    {"master_port", 0, "PORT", OptionGroup::nodes, "PET_MASTER_PORT", "a free one",
     "Port of the store.", set_master_port},
    {"local_addr", 0, "HOST", OptionGroup::nodes, "PET_LOCAL_ADDR", "127.0.0.1",
     "Name of this node for the others and in reports. On one node: the store's address, unless "
     "--master_addr is given.",
     set_text<&Options::local_addr>},
};

constexpr OptionEntry kOwn[] = {
    {"affinity", 0, "none|cores|exclusive|node|socket|l3|LIST;...", OptionGroup::own, "", "none",
     "Which CPUs each worker runs on: an equal share of the cores near its GPU, all CPUs of a NUMA "
     "node, socket or cache, or lists by local rank like 0-7;8-15.",
     [](Options& o, Text v) { return keep(o.affinity, parse_affinity(v)); }},
    {"prefix", 0, "TEMPLATE", OptionGroup::own, "", "",
     "Short for --log_line_prefix_template, and goes before it. Further fields: ${node_rank}, "
     "${attempt}, ${stream}, ${time}. none for no prefix.",
     set_prefix},
    {"ranks_filter", 0, "RANK,...", OptionGroup::own, "", "all workers",
     "As --local_ranks_filter, by the rank among the workers of all nodes.",
     [](Options& o, Text v) { return keep(o.ranks_filter, parse_ranks(v)); }},
    {"stdin", 0, "RANK|auto|none", OptionGroup::own, "", "auto",
     "The worker that reads ddprun's own standard input; that of all others is empty. auto: the "
     "only worker, or rank 0 where it is a terminal.",
     [](Options& o, Text v) { return keep(o.stdin_worker, parse_stdin_worker(v)); }},
    {"exit_code", 0, "torchrun|worker", OptionGroup::own, "", "torchrun",
     "When a worker failed, end with 1 as torchrun does, or with the worker's own exit code (128 "
     "plus its signal).",
     set_exit_code},
    {"restart_window", 0, "SECONDS", OptionGroup::own, "", "0",
     "Only restarts within this time count against --max_restarts; 0: all do.",
     [](Options& o, Text v) { return keep(o.restart_window, parse_seconds(v)); }},
    {"agent_store", 0, "on|off", OptionGroup::own, "",
     "on, or off if TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 1",
     "off: PyTorch's worker with rank 0 hosts the store at MASTER_PORT, not ddprun; for programs "
     "that form groups by init_method=tcp:// at ports of their own.",
     set_agent_store},
    {"events", 0, "FILE", OptionGroup::own, "", "",
     "Append a JSON object for each thing that happens to this file.", set_name<&Options::events>},
    {"omp_num_threads", 0, "N|auto", OptionGroup::own, "", "1 if there are several workers",
     "OMP_NUM_THREADS of each worker. auto: its share of the CPUs, or its cores if it is bound.",
     set_omp_num_threads},
    {"stacks", 0, "never|kill|stop", OptionGroup::own, "", "kill",
     "When to take the workers' stacks: before those that do not stop are killed, and of ranks "
     "that are late for a collective at its timeout; or also before all are asked to stop. "
     "SIGRTMIN to ddprun takes them at any time.",
     set_stacks},
    {"pass_local_rank", 0, "", OptionGroup::own, "", "",
     "Put --local-rank=N before the program's arguments, as torch.distributed.launch does; "
     "--local_rank=N for a PyTorch before 2.0.",
     set_flag<&Options::pass_local_rank>},
    {"share_gpu", 0, "", OptionGroup::own, "", "",
     "Let workers use the same GPU where there are fewer GPUs than workers; for tests.",
     set_flag<&Options::share_gpu>},
    {"preflight", 0, "", OptionGroup::own, "", "",
     "Before the workers start, see whether the GPU or the cores of each do what they should, and "
     "their connections; a node where something is amiss starts none.",
     set_flag<&Options::preflight>},
    {"config", 0, "FILE", OptionGroup::own, "", "",
     "Take program and options from this JSON file, the same for all nodes. Arguments and "
     "variables beat it.",
     set_name<&Options::config>},
    {"node_name", 0, "NAME", OptionGroup::own, "DDPRUN_NODE", "found by its host name or address",
     "Which of the nodes in the file of --config this one is.", set_name<&Options::node_name>},
    {"secret_file", 0, "FILE", OptionGroup::own, "", "",
     "What all nodes of a run must know to take part, in a file that only you can read, the same "
     "on "
     "all of them; 'ddprun keygen FILE' writes one.",
     set_name<&Options::secret_file>},
    {"security", 0, "open", OptionGroup::own, "", "",
     "open: several nodes need no secret; any machine that reaches them can take part.",
     set_security},
    {"ssh", 0, "", OptionGroup::own, "", "",
     "Start ddprun on all nodes of the file of --config from here, by ssh, and show their output.",
     set_flag<&Options::ssh>},
    {"dry_run", 0, "", OptionGroup::own, "", "",
     "Print what would be run, with its environment, and start nothing.",
     set_flag<&Options::dry_run>},
};

constexpr OptionEntry kInformation[] = {
    {"help", 'h', "", OptionGroup::information, "", "", "Print this text.", no_action},
    {"print_completion", 0, "bash|zsh", OptionGroup::information, "", "",
     "Print the completion of these options for a shell.", no_action},
    {"version", 0, "", OptionGroup::information, "", "", "Print the version.", no_action},
};

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
      return "Failure and end";
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
