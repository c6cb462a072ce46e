#include "worker_runtime/group/registry.hpp"

#include "worker_runtime/backends/host/host_backend.hpp"
#include "worker_runtime/backends/module/module_backend.hpp"
#include "worker_runtime/backends/nccl/nccl_backend.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

template <const char* Name>
std::unique_ptr<Backend> create_module(const GroupPlace& place, const GroupOptions& options,
                                       Deadline) {
  return create_module_backend(Name, place, options);
}

std::unique_ptr<Backend> create_host(const GroupPlace& place, const GroupOptions& options,
                                     Deadline deadline) {
  return create_host_backend(place, options, "host", deadline);
}

constexpr char kGloo[] = "gloo";
constexpr char kMpich[] = "mpich";
constexpr char kOpenMpi[] = "openmpi";

std::string gloo_reason(const WorkerEnv& env) {
  if (auto reason = store_missing_reason(env); !reason.empty()) return reason;
  return module_unavailable_reason(kGloo);
}

/// A process can only be a rank of the MPI that started it.
template <const char* Name>
bool is_started_by(const WorkerEnv& env) {
  return env.mpi_vendor == Name;
}

template <const char* Name>
std::string mpi_reason(const WorkerEnv& env) {
  if (env.mpi_vendor != Name && (env.world_size > 1 || !env.mpi_vendor.empty())) {
    return std::string("the mpirun of ") + (Name == kMpich ? "MPICH" : "Open MPI") +
           " has to start the program (mpirun -n " + std::to_string(env.world_size) + " ...)";
  }
  return module_unavailable_reason(Name);
}

constexpr std::array kBackends = {
    BackendEntry{"nccl", "nccl", create_nccl_backend, nccl_unavailable_reason, has_visible_gpu},
    BackendEntry{"host", "host", create_host, host_unavailable_reason},
    BackendEntry{kGloo, kGloo, create_module<kGloo>, gloo_reason},
    BackendEntry{kOpenMpi, "mpi", create_module<kOpenMpi>, mpi_reason<kOpenMpi>,
                 is_started_by<kOpenMpi>},
    BackendEntry{kMpich, "mpi", create_module<kMpich>, mpi_reason<kMpich>, is_started_by<kMpich>},
};

/// A requested backend that cannot be used.
struct Rejected {
  const BackendEntry* entry;
  std::string reason;

  std::string text() const {
    return std::string("backend ") + entry->name + " cannot be used: " + reason;
  }
};

/// Returns text such as "; nor can gloo, mpich (request one by name for its reason)".
std::string list_others(const std::vector<Rejected>& rejected, const Rejected& first) {
  std::string names;
  for (const auto& other : rejected) {
    if (other.entry != first.entry)
      names += (names.empty() ? "" : ", ") + std::string(other.entry->name);
  }
  return names.empty() ? "" : "; nor can " + names + " (request one by name for its reason)";
}

}  // namespace

std::span<const BackendEntry> backend_entries() {
  return kBackends;
}

const BackendEntry& find_backend(const std::string& name) {
  return *std::find_if(kBackends.begin(), kBackends.end(),
                       [&](const BackendEntry& entry) { return entry.name == name; });
}

BackendChoice choose_backend(std::span<const BackendEntry> entries, const WorkerEnv& env,
                             const GroupOptions& options) {
  const std::string group = "process group \"" + options.name + "\": ";
  const auto is_expected = [&](const Rejected& one) {
    return one.entry->is_expected == nullptr || one.entry->is_expected(env);
  };
  std::string names;
  std::vector<Rejected> rejected;
  for (const auto& entry : entries) {
    const bool is_wanted = options.backend == "auto" || options.backend == entry.name ||
                           options.backend == entry.family;
    names += std::string(", ") + entry.name;
    if (!is_wanted) continue;
    std::string reason = entry.unavailable_reason(env);
    if (!reason.empty()) {
      rejected.push_back({&entry, std::move(reason)});
      continue;
    }
    const auto first = std::find_if(rejected.begin(), rejected.end(), is_expected);
    if (first == rejected.end()) return {&entry};
    return {&entry, group + first->text() + "; using " + entry.name};
  }
  if (rejected.empty()) {
    throw Error(Errc::usage, group + "there is no backend \"" + options.backend +
                                 "\" (known: auto" + names + ")");
  }
  const auto expected = std::find_if(rejected.begin(), rejected.end(), is_expected);
  const auto& first = expected == rejected.end() ? rejected.front() : *expected;
  throw Error(Errc::usage, group + first.text() + list_others(rejected, first));
}

}  // namespace ddprun
