// Description of a worker and its run, and the environment variables that the agent passes it in.
// Only worker_env.cpp reads and writes these variables.
#pragma once

#include <ddprun/store.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace ddprun {

/// Names are torchrun's. The default value describes a program that was started without a launcher:
/// rank 0 of 1.
struct WorkerEnv {
  int rank = 0;                           ///< RANK: index among all workers
  int world_size = 1;                     ///< WORLD_SIZE: number of workers
  int local_rank = 0;                     ///< LOCAL_RANK: index among this node's workers
  int local_world_size = 1;               ///< LOCAL_WORLD_SIZE: number of this node's workers
  int node_rank = 0;                      ///< GROUP_RANK: index of the node
  int node_count = 1;                     ///< GROUP_WORLD_SIZE: number of nodes
  int role_rank = 0;                      ///< ROLE_RANK: index among the workers of the same role
  int role_world_size = 1;                ///< ROLE_WORLD_SIZE
  std::string role_name = "default";      ///< ROLE_NAME
  std::string master_addr = "127.0.0.1";  ///< MASTER_ADDR: host of the store
  std::uint16_t master_port = 0;          ///< MASTER_PORT: port of the store; 0: no store
  int restart_count = 0;                  ///< TORCHELASTIC_RESTART_COUNT: earlier attempts
  int max_restarts = 0;                   ///< TORCHELASTIC_MAX_RESTARTS
  std::string run_id = "none";            ///< TORCHELASTIC_RUN_ID
  bool use_agent_store =
      false;  ///< TORCHELASTIC_USE_AGENT_STORE: the agent hosts the store ("True")
  /// DDPRUN_STORE_ADDR, DDPRUN_STORE_PORT: the agent's store if MASTER_PORT is the workers' store,
  /// which rank 0 hosts for PyTorch programs. Port 0: there is no agent's store.
  std::string agent_store_addr;
  std::uint16_t agent_store_port = 0;  ///< port; see agent_store_addr
  std::string error_file;              ///< TORCHELASTIC_ERROR_FILE: file for failures; empty: none
  /// DDPRUN_CONTROL_FD: inherited descriptor of the memory page shared with the agent.
  std::optional<int> control_page_fd;
  /// DDPRUN_CONTROL_SLOT: this worker's slot in the page; may differ from LOCAL_RANK.
  int control_page_slot = 0;
  bool shares_gpus = false;  ///< DDPRUN_SHARE_GPU: several workers may use a GPU ("1")

  /// "openmpi" or "mpich" if that mpirun started the process and no agent has set variables. Ranks
  /// and sizes then come from MPI's variables, and there is no store.
  std::string mpi_vendor;

  /// Returns true if an agent started this process.
  bool is_launched() const { return use_agent_store || agent_store_port != 0; }

  /// Returns the endpoint of the run's store; port 0: no store.
  StoreEndpoint store() const;

  bool operator==(const WorkerEnv&) const = default;
};

/// Returns the value of a variable, or nullopt if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Returns the variables that describe `env` to a worker.
std::map<std::string, std::string> to_environment(const WorkerEnv& env);

/// Reads a WorkerEnv. If neither RANK nor WORLD_SIZE is set, reads mpirun's variables, or returns
/// the default if these are missing, too. Throws Error{Errc::usage} that names each variable that
/// is missing, not a number or out of range.
WorkerEnv from_environment(const EnvironmentLookup& lookup);

/// Calls from_environment() with the environment of this process.
WorkerEnv from_process_environment();

}  // namespace ddprun
