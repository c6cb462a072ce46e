// The launch on this node: the options, and values derived from the options and the host's facts.
// Complete and validated. Plain data, created once by make_plan() and not changed afterwards.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "rendezvous/etcd/settings.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Destination of a worker's stream. Without a log folder there are no files: `file` discards the
/// output, and `tee` is like `console`.
enum class StreamTarget {
  console,  ///< the launcher's stream, with the prefix
  file,     ///< the log folder only
  tee,      ///< both
};

/// Settings of one worker.
struct WorkerPlan {
  int local_rank = 0;
  std::vector<std::string> arguments;  ///< resolved program first; macros are replaced
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< overrides WorkerEnv's variables: OMP_NUM_THREADS, ...
  StreamTarget standard_output = StreamTarget::console;
  StreamTarget standard_error = StreamTarget::console;
  bool is_shown = true;   ///< false if --local_ranks_filter hides it
  std::vector<int> cpus;  ///< --affinity: CPUs to run on; empty: any
  int memory_node = -1;   ///< preferred NUMA node for memory; -1: any

  bool operator==(const WorkerPlan&) const = default;
};

/// Time limits for recording stacks.
struct StackLimits {
  /// Limit for one tool. A debugger takes one or two seconds to read the symbols of a program with
  /// PyTorch, and several more if they are not in the page cache.
  std::chrono::milliseconds tool = std::chrono::seconds(10);
  /// Limit for all workers together, including alternatives to a tool that hangs. The end of a run
  /// may be delayed by it.
  std::chrono::milliseconds together = std::chrono::seconds(12);

  bool operator==(const StackLimits&) const = default;
};

/// How stacks of workers are recorded.
struct StackPlan {
  StacksWhen when = StacksWhen::kill;
  std::string py_spy{};  ///< paths of the tools; empty: not found
  std::string gdb{};
  std::string symbol_reader{};  ///< program that resolves symbols; empty: this ddprun
  StackLimits limits{};

  bool operator==(const StackPlan&) const = default;
};

/// How Python modules are imported once for all workers of the node.
struct PreloadPlan {
  std::vector<std::string> modules;   ///< empty: those that the program imports
  std::size_t interpreter_words = 1;  ///< of a worker's arguments: the interpreter and its options
  bool is_module = false;             ///< the program is a module: "-m" precedes it
  bool inspects_workers = true;       ///< workers have the thread of preload_inspection.py

  bool operator==(const PreloadPlan&) const = default;
};

/// Further settings of a run of several nodes.
struct NodesPlan {
  membership::Settings settings;
  std::string endpoint_host;  ///< host of rendezvous and store, as given
  std::uint16_t endpoint_port = 0;
  /// True if this node hosts them. If nullopt, this node hosts them if the endpoint is an address
  /// of this machine and no other node hosts them.
  std::optional<bool> is_host;
  std::optional<etcd::EtcdSettings> etcd{};  ///< if set, elects the host instead of the endpoint
  std::string name;                          ///< name of this node, for messages and rank order
  std::string command{};         ///< compared between nodes; empty with a configuration file
  int node_rank = -1;            ///< preferred rank; -1: any
  bool is_rank_assumed = false;  ///< node_rank is 0 because --node_rank is missing

  bool operator==(const NodesPlan&) const = default;
};

struct LaunchPlan {
  LaunchOptions options{};
  std::string run_id;
  std::string run_folder_name{};  ///< unique name of the run's folder in log_dir
  std::string
      interpreter_origin{};  ///< reason for the choice of the Python interpreter; empty: no choice
  std::string host_name{};   ///< name of this machine
  std::vector<WorkerPlan> workers;  ///< by local rank

  /// Inherited variables to remove from the workers' environment.
  std::vector<std::string> removed_variables{};
  /// Variables with the terminal's size, for workers on a terminal. Excludes variables that the
  /// user has set.
  std::vector<std::string> terminal_variables{};

  /// Soft limit of open files for workers, since ddprun raises its own limit; 0: the agent's limit.
  std::uint64_t worker_open_files_max = 0;

  std::string store_host = "127.0.0.1";  ///< address to bind and MASTER_ADDR
  std::uint16_t store_port = 0;          ///< 0: the kernel chooses

  /// True if the store refuses users of this machine that have no worker.
  bool checks_users = true;

  /// MASTER_PORT, if the worker with rank 0 hosts a store there; 0: the kernel chooses. nullopt:
  /// the workers use the agent's store.
  std::optional<std::uint16_t> worker_store_port;
  std::optional<NodesPlan> nodes{};  ///< nullopt: single-node run

  /// Program that checks the node before its workers start; nullopt: no check.
  std::optional<std::filesystem::path> preflight{};

  StackPlan stacks{};
  std::optional<PreloadPlan> preload{};  ///< nullopt: each worker imports its modules

  /// Folder for the folders of attempts, which have a folder per rank. Nullopt: only error files
  /// are kept, in a temporary folder.
  std::optional<std::filesystem::path> log_dir;
  std::filesystem::path temporary_directory = "/tmp";  ///< parent of temporary folders
  bool is_log_dir_temporary = false;                   ///< log_dir will be in temporary_directory
  /// TORCHELASTIC_ERROR_FILE, from which a parent launcher reads the failure.
  std::optional<std::filesystem::path> error_file{};

  /// Messages at the start, such as surprising defaults and options without effect.
  std::vector<std::string> notes{};
  /// Messages that are shown even if notes are not.
  std::vector<std::string> warnings{};

  bool operator==(const LaunchPlan&) const = default;
};

/// Returns the restart limits that the options set.
membership::RestartSettings restart_settings(const LaunchOptions& options);

/// Returns true if a worker's stream goes to a file, if there is a log folder.
bool has_stream_files(const LaunchPlan& plan);

/// Returns true if the output of `worker`, with this rank, is shown on the console.
bool is_output_shown(const LaunchPlan& plan, const WorkerPlan& worker, int rank);

}  // namespace ddprun
