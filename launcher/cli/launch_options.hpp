// The options of a run as typed values. Each value is valid by itself, but is not checked against
// other options or the machine. Plain data; fields are named like the options.
#pragma once

#include "launcher/cli/prefix_template.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// --nnodes: from `min` to `max` nodes.
struct NodeRange {
  int min = 1;
  int max = 1;

  bool operator==(const NodeRange&) const = default;
};

/// --nproc_per_node: a number, or a rule that determines it.
struct WorkerCount {
  enum class Kind {
    number,
    automatic,  ///< one per GPU if there are GPUs, otherwise one per CPU
    cpu,        ///< one per CPU that this process may run on
    gpu,        ///< one per visible GPU
  };
  Kind kind = Kind::number;
  int number = 1;  ///< valid only for Kind::number

  bool operator==(const WorkerCount&) const = default;
};

/// Bits of --redirects and --tee: 1 standard output, 2 standard error.
struct StreamChoice {
  int for_all = 0;  ///< choice for ranks not in `by_local_rank`
  std::map<int, int> by_local_rank;

  int of(int local_rank) const {
    const auto found = by_local_rank.find(local_rank);
    return found == by_local_rank.end() ? for_all : found->second;
  }
  bool operator==(const StreamChoice&) const = default;
};

/// The worker that gets ddprun's standard input. The input of all other workers is empty.
struct StdinChoice {
  bool is_automatic = true;   ///< selects rank 0
  std::optional<int> rank{};  ///< rank if not automatic; nullopt: no worker

  bool operator==(const StdinChoice&) const = default;
};

/// The rendezvous backend of a run.
enum class RendezvousBackend {
  fixed,    ///< "static": the node of rank 0 hosts the rendezvous
  c10d,     ///< the node at the endpoint hosts it; nodes join in any order
  etcd,     ///< the nodes elect the host
  etcd_v2,  ///< torchrun's name for etcd
};

inline bool is_etcd(RendezvousBackend backend) {
  return backend == RendezvousBackend::etcd || backend == RendezvousBackend::etcd_v2;
}

/// --rdzv_endpoint; port 0: no port was given.
struct RendezvousEndpoint {
  std::string host;
  std::uint16_t port = 0;
  bool is_any_port = false;                  ///< port 0 was given
  std::vector<RendezvousEndpoint> others{};  ///< further servers of etcd

  bool operator==(const RendezvousEndpoint&) const = default;
};

/// CPUs of each worker.
struct Affinity {
  enum class Kind {
    automatic,  ///< node if each worker has a GPU of known NUMA node, otherwise none
    none,       ///< any CPU that ddprun may use
    cores,      ///< an equal share of whole cores; workers share cores if there are too few
    exclusive,  ///< like cores, but fails if there are too few
    node,       ///< all CPUs of the worker's NUMA node
    socket,     ///< all CPUs of that node's socket
    l3,         ///< CPUs of the node that share a last-level cache
    list,       ///< lists from the option
  };
  Kind kind = Kind::automatic;
  std::vector<std::vector<int>> lists{};  ///< CPUs by local rank; only for Kind::list

  bool operator==(const Affinity&) const = default;
};

/// Exit code of a run whose workers failed.
enum class ExitCodePolicy {
  torchrun,  ///< 1
  worker,    ///< exit code of the root cause, or 128 plus its signal
};

/// Events before which stacks of workers are recorded without a request.
enum class StacksWhen {
  never,
  kill,  ///< killing workers that did not stop in time
  stop,  ///< stopping workers, and killing them
};

/// Time without progress after which workers count as hung.
struct HangTimeout {
  enum class Mode {
    automatic,  ///< derived from the waits observed in the run
    fixed,
    off,
  };
  Mode mode = Mode::automatic;
  std::chrono::milliseconds time{0};  ///< for Mode::fixed

  bool operator==(const HangTimeout&) const = default;
};

/// Reaction to hung workers.
enum class OnHang {
  report,
  restart,  ///< while restarts are left; otherwise report
  stop,     ///< the run fails
};

/// A variable in the workers' environment that a configuration file sets or removes.
struct EnvironmentChange {
  std::string name;
  std::optional<std::string> value;  ///< new value; nullopt: remove the variable

  bool operator==(const EnvironmentChange&) const = default;
};

/// A node that a configuration file names.
struct NamedNode {
  std::string name;
  std::string address{};         ///< empty: the file has none
  std::string nproc_per_node{};  ///< text in the file: a number, "gpu", ...

  bool operator==(const NamedNode&) const = default;
};

/// Contents of a configuration file that are not options.
struct ConfigSettings {
  std::vector<EnvironmentChange> environment;
  std::vector<std::string> notes;  ///< how this node was identified
  /// Names of the nodes that may join the run; empty if the file has none.
  std::vector<std::string> names_in_run{};
  /// The only node that prints the final report, because the outputs of all nodes are shown
  /// together; empty: every node prints the report.
  std::string reporter{};
  /// Origin of the number of nodes if it is not an option: "Slurm" or the file's name.
  std::string nodes_from{};
  /// Hash of the file before references are replaced, which is equal on all nodes; empty without a
  /// file.
  std::string hash;
  std::string outline;                    ///< see config_outline()
  std::vector<NamedNode> nodes{};         ///< all nodes of the file, in its order
  std::optional<std::size_t> own_node{};  ///< index of this node in `nodes`

  bool operator==(const ConfigSettings&) const = default;
};

struct LaunchOptions {
  std::string program;                         ///< program as given
  std::vector<std::string> program_arguments;  ///< arguments as given

  // Workers.
  WorkerCount nproc_per_node;
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool use_env = false;
  bool pass_local_rank = false;
  bool virtual_local_rank = false;
  bool share_gpu = false;
  bool preflight = false;
  Affinity affinity;
  Affinity numa_binding{.kind = Affinity::Kind::none};  ///< torchrun's name for affinity
  std::string omp_num_threads;                          ///< a number, "auto", or empty
  std::string role = "default";
  std::string start_method = "spawn";

  // Failures and shutdown.
  int max_restarts = 0;
  std::chrono::milliseconds restart_window{0};  ///< 0: all restarts count
  std::chrono::milliseconds monitor_interval{100};
  std::vector<int> signals_to_handle = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::chrono::milliseconds shutdown_timeout{30'000};
  ExitCodePolicy exit_code = ExitCodePolicy::torchrun;
  StacksWhen stacks = StacksWhen::kill;
  HangTimeout hang_timeout;
  OnHang on_hang = OnHang::restart;

  // Output.
  std::string log_dir;
  StreamChoice redirects;
  StreamChoice tee;
  std::vector<int> local_ranks_filter;  ///< empty: all
  std::vector<int> ranks_filter;        ///< empty: all
  PrefixTemplate prefix = default_prefix();
  StdinChoice stdin_worker;
  std::vector<std::string> preload;  ///< modules, or only "auto"; empty: none
  std::vector<std::string> duplicate_stdout_filters;
  std::vector<std::string> duplicate_stderr_filters;
  std::string logs_specs;
  std::string event_log_handler = "null";
  std::string events;

  // Nodes and rendezvous.
  NodeRange nnodes;
  bool standalone = false;
  RendezvousBackend rdzv_backend = RendezvousBackend::fixed;
  RendezvousEndpoint rdzv_endpoint;
  std::string rdzv_id;  ///< empty: chosen at random
  std::map<std::string, std::string> rdzv_conf;
  std::optional<int> node_rank;
  std::string master_addr;
  std::optional<std::uint16_t> master_port;
  std::string local_addr;
  std::optional<bool> agent_store;  ///< nullopt: use torchrun's variable
  std::string secret_file;
  bool is_open = false;  ///< --security=open: multi-node runs need no secret

  std::string config;
  std::string node_name;
  ConfigSettings from_config;
  /// Origin of each option that a variable or a configuration file sets, by name: "PET_NNODES=2",
  /// "job.json:4:3: rendezvous.nnodes".
  std::map<std::string, std::string> origins;

  bool ssh = false;
  bool dry_run = false;
  bool needs_program = true;  ///< false for commands that only read a configuration file

  // Set by apply_compat_mode(), not by options.
  bool is_python_by_default = false;    ///< scripts need not end in .py
  bool is_quiet = false;                ///< messages below warnings are shown only with LOGLEVEL
  bool has_prefix_by_tee_only = false;  ///< only output of --tee has a prefix
  bool is_open_by_default = false;      ///< multi-node runs need no secret and no --security

  bool operator==(const LaunchOptions&) const = default;
};

}  // namespace ddprun
