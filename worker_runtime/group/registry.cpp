#include "worker_runtime/group/registry.hpp"

#include "worker_runtime/backends/host/host_backend.hpp"
#include "worker_runtime/backends/module/module_backend.hpp"
#include "worker_runtime/backends/nccl/nccl_backend.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>

namespace ddprun {

namespace {

template <const char* Name>
std::unique_ptr<Backend> create_module(const GroupPlace& place, const GroupOptions& options,
                                       Deadline) {
  return create_module_backend(Name, place, options);
}

template <const char* Name>
std::string module_reason(const WorkerEnv&) {
  return module_unavailable_reason(Name);
}

std::unique_ptr<Backend> create_host(const GroupPlace& place, const GroupOptions& options,
                                     Deadline deadline) {
  return create_host_backend(place, options, deadline);
}

constexpr char kGloo[] = "gloo";
constexpr char kMpich[] = "mpich";
constexpr char kOpenMpi[] = "openmpi";

/// A process can be a rank of the MPI that started it only; MPICH can be started from here.
std::string mpich_reason(const WorkerEnv& env) {
  if (env.mpi_vendor == kOpenMpi) return "the mpirun of Open MPI has started this program";
  return module_unavailable_reason(kMpich);
}

std::string openmpi_reason(const WorkerEnv& env) {
  if (env.mpi_vendor == kMpich) return "the mpirun of MPICH has started this program";
  if (env.mpi_vendor != kOpenMpi && env.world_size > 1) {
    return "the mpirun of Open MPI has to start the program (mpirun -n " +
           std::to_string(env.world_size) + " ...)";
  }
  return module_unavailable_reason(kOpenMpi);
}

constexpr std::array kBackends = {
    BackendEntry{"nccl", "nccl", create_nccl_backend, nccl_unavailable_reason},
    BackendEntry{"host", "host", create_host, host_unavailable_reason},
    BackendEntry{kGloo, kGloo, create_module<kGloo>, module_reason<kGloo>},
    BackendEntry{kOpenMpi, "mpi", create_module<kOpenMpi>, openmpi_reason},
    BackendEntry{kMpich, "mpi", create_module<kMpich>, mpich_reason},
};

}  // namespace

std::span<const BackendEntry> backend_entries() {
  return kBackends;
}

const BackendEntry& find_backend(const std::string& name) {
  return *std::find_if(kBackends.begin(), kBackends.end(),
                       [&](const BackendEntry& entry) { return entry.name == name; });
}

const BackendEntry& choose_backend(const WorkerEnv& env, const GroupOptions& options) {
  const std::string group = "process group \"" + options.name + "\": ";
  std::string names;
  std::string reasons;
  for (const auto& entry : backend_entries()) {
    const bool is_wanted = options.backend == "auto" || options.backend == entry.name ||
                           options.backend == entry.family;
    names += std::string(", ") + entry.name;
    if (!is_wanted) continue;
    const std::string reason = entry.unavailable_reason(env);
    if (reason.empty()) return entry;
    reasons += (reasons.empty() ? "" : "; ") + std::string("backend ") + entry.name +
               " cannot be used: " + reason;
  }
  if (!reasons.empty()) throw Error(Errc::usage, group + reasons);
  throw Error(Errc::usage,
              group + "there is no backend \"" + options.backend + "\" (known: auto" + names + ")");
}

}  // namespace ddprun
