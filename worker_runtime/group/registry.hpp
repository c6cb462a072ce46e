// The table of backends.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/worker_env.hpp>

#include <memory>
#include <span>
#include <string>

namespace ddprun {

struct BackendEntry {
  const char* name;
  const char* family;  ///< common name of several backends: "mpi"
  std::unique_ptr<Backend> (*create)(const GroupPlace& place, const GroupOptions& options,
                                     Deadline deadline);
  /// Returns why the backend cannot be used for these workers; empty if it can.
  std::string (*unavailable_reason)(const WorkerEnv& env);
  /// Returns true if "auto" should choose it here: nccl on machines with GPUs. Null: always.
  bool (*is_expected)(const WorkerEnv& env) = nullptr;
};

struct BackendChoice {
  const BackendEntry* entry = nullptr;
  std::string note{};  ///< why "auto" did not choose the first backend; empty if it did
};

/// In the order of "auto".
std::span<const BackendEntry> backend_entries();

/// Returns the backend of `entries` that `options` request. Throws Error{Errc::usage} if it is
/// unknown, or with the reason of the first choice if no backend can be used.
BackendChoice choose_backend(std::span<const BackendEntry> entries, const WorkerEnv& env,
                             const GroupOptions& options);

/// Returns the backend `name`, which must exist.
const BackendEntry& find_backend(const std::string& name);

}  // namespace ddprun
