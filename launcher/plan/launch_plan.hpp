// What to launch on this node: the options, and what follows from them and from the facts of the
// host. Complete and validated. Plain data, made once by make_plan() and not changed afterwards.
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

/// Where a worker's stream goes. Without a log folder there are no files: `file` is nowhere and
/// `tee` is the console.
enum class StreamTarget {
  console,  ///< the launcher's own stream, with the prefix
  file,     ///< the log folder only
  tee,      ///< both
};

/// What differs from one worker of the node to the next.
struct WorkerPlan {
  int local_rank = 0;
  std::vector<std::string>
      arguments;  ///< program first; macros replaced, program resolved to a path
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< laid over WorkerEnv's variables: OMP_NUM_THREADS, ...
  StreamTarget standard_output = StreamTarget::console;
  StreamTarget standard_error = StreamTarget::console;
  bool is_shown = true;   ///< false: --local_ranks_filter keeps it off the console
  std::vector<int> cpus;  ///< --affinity: CPUs to run on; empty: any
  int memory_node = -1;   ///< NUMA node to take memory from while it has some; -1: any

  bool operator==(const WorkerPlan&) const = default;
};

/// How long it may take to have the stacks of workers.
struct StackLimits {
  /// For a debugger to read itself and the symbols of a program with PyTorch in it. That is a
  /// second or two of work, and several more where none of it has been read from its disk before.
  std::chrono::milliseconds tool = std::chrono::seconds(10);
  /// For those of all workers, and for what is tried after a tool that hangs. Nobody wants to wait
  /// much longer for the end of a run.
  std::chrono::milliseconds together = std::chrono::seconds(12);

  bool operator==(const StackLimits&) const = default;
};

/// How the stacks of workers are taken.
struct StackPlan {
  StacksWhen when = StacksWhen::kill;
  std::string py_spy{};  ///< paths of tools; empty: there is none
  std::string gdb{};
  std::string
      symbol_reader{};  ///< path of ddprun or what stands in for it; empty: this run's ddprun
  StackLimits limits{};

  bool operator==(const StackPlan&) const = default;
};

/// What a run of several nodes needs beyond that of one.
struct NodesPlan {
  membership::Settings settings;
  std::string endpoint_host;  ///< of rendezvous and store, as the operator wrote it
  std::uint16_t endpoint_port = 0;
  /// Whether this node hosts them; nothing: if the endpoint is an address of this machine and
  /// nobody else does.
  std::optional<bool> is_host;
  std::optional<etcd::EtcdSettings> etcd{};  ///< elects the host; the endpoint is not used then
  std::string name;              ///< of this node, for people and for the order of ranks
  std::string command{};         ///< as all nodes should have it; empty: a file says it
  int node_rank = -1;            ///< wanted; -1: any
  bool is_rank_assumed = false;  ///< nobody has said that it is 0

  bool operator==(const NodesPlan&) const = default;
};

struct LaunchPlan {
  LaunchOptions options{};
  std::string run_id;
  std::string run_folder_name{};     ///< the run's folder in log_dir; no other run has it
  std::string interpreter_origin{};  ///< if ddprun has chosen a Python interpreter: why that one
  std::string host_name{};           ///< of this machine
  std::vector<WorkerPlan> workers;   ///< by local rank

  /// Inherited variables that no worker gets.
  std::vector<std::string> removed_variables{};
  /// Those of the terminal's size that workers on a terminal get: none that the user has set.
  std::vector<std::string> terminal_variables{};

  /// Soft limit of open files for the workers, as ddprun raises its own; 0: the agent's.
  std::uint64_t worker_open_files_max = 0;

  std::string store_host = "127.0.0.1";  ///< address to bind and MASTER_ADDR
  std::uint16_t store_port = 0;          ///< 0: the kernel chooses

  /// The store refuses users of this machine that have no worker.
  bool checks_users = true;

  /// MASTER_PORT, if the worker with rank 0 is to host a store there; 0: the kernel chooses.
  /// Nothing: the workers use the agent's store.
  std::optional<std::uint16_t> worker_store_port;
  std::optional<NodesPlan> nodes{};  ///< absent: this is the only node

  /// The program that looks at the node before its workers start; nothing: nobody does.
  std::optional<std::filesystem::path> preflight{};

  StackPlan stacks{};

  /// Holds attempt folders with a folder per rank; absent: nothing is kept but error files in a
  /// temporary folder.
  std::optional<std::filesystem::path> log_dir;
  std::filesystem::path temporary_directory = "/tmp";  ///< where temporary folders are created
  bool is_log_dir_temporary = false;  ///< log_dir is to be created in temporary_directory
  /// Where a launcher above this one expects to read of a failure (TORCHELASTIC_ERROR_FILE).
  std::optional<std::filesystem::path> error_file{};

  /// What the operator should be told once: a default that may surprise, an option without effect.
  std::vector<std::string> notes{};
  /// The same, where notes are not shown and torchrun speaks up, too.
  std::vector<std::string> warnings{};

  bool operator==(const LaunchPlan&) const = default;
};

/// Returns true if a worker's stream goes to a file, provided that there is a log folder.
bool has_stream_files(const LaunchPlan& plan);

/// Whether the filters let the output of `worker`, of this rank, onto the console.
bool is_let_through(const LaunchPlan& plan, const WorkerPlan& worker, int rank);

}  // namespace ddprun
