// Description of a worker and its run, and the environment variables that pass it from the agent to
// the worker. Only worker_env.cpp reads and writes these variables.
#pragma once

#include <ddprun/store.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace ddprun {

/// The names are torchrun's. A default-made WorkerEnv is that of a program started alone: rank 0
/// of 1.
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
  int restart_count = 0;                  ///< TORCHELASTIC_RESTART_COUNT: attempts before this one
  int max_restarts = 0;                   ///< TORCHELASTIC_MAX_RESTARTS
  std::string run_id = "none";            ///< TORCHELASTIC_RUN_ID
  bool use_agent_store =
      false;  ///< TORCHELASTIC_USE_AGENT_STORE: the agent hosts the store ("True")
  /// DDPRUN_STORE_ADDR, DDPRUN_STORE_PORT: the agent's store where MASTER_PORT is the workers' own,
  /// that is, where rank 0 hosts a store for PyTorch's programs. Port 0: there is no such store.
  std::string agent_store_addr;
  std::uint16_t agent_store_port = 0;  ///< see agent_store_addr
  std::string error_file;  ///< TORCHELASTIC_ERROR_FILE: where to describe a failure; empty: nowhere
  /// DDPRUN_CONTROL_FD: inherited descriptor of the page of memory shared with the agent.
  std::optional<int> control_page_fd;
  /// DDPRUN_CONTROL_SLOT: this worker's slot there; LOCAL_RANK may be virtual.
  int control_page_slot = 0;
  bool shares_gpus = false;  ///< DDPRUN_SHARE_GPU: a GPU may have several workers ("1")

  /// "openmpi" or "mpich" if the process was started by that mpirun and an agent has set no
  /// variables: ranks and sizes then come from MPI's variables, and there is no store.
  std::string mpi_vendor;

  /// True if an agent started this process, in contrast to a program started by hand.
  bool is_launched() const { return use_agent_store || agent_store_port != 0; }

  /// Endpoint of the run's store; port 0: no store.
  StoreEndpoint store() const;

  bool operator==(const WorkerEnv&) const = default;
};

/// Looks up a variable; nullopt if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The variables that describe `env` to a worker.
std::map<std::string, std::string> to_environment(const WorkerEnv& env);

/// Reads a WorkerEnv. If neither RANK nor WORLD_SIZE is set mpirun may have started the program;
/// otherwise it was started alone and the default is returned. Throws Error{Errc::usage} naming
/// each variable that is missing, not a number or out of range.
WorkerEnv from_environment(const EnvironmentLookup& lookup);

/// from_environment over this process' environment.
WorkerEnv from_process_environment();

}  // namespace ddprun
