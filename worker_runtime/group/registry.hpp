// The backends there are, in one constant table.
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
  const char* family;  ///< a name for any of several: "mpi"
  std::unique_ptr<Backend> (*create)(const GroupPlace& place, const GroupOptions& options,
                                     Deadline deadline);
  /// Why it cannot connect these workers; empty if it can.
  std::string (*unavailable_reason)(const WorkerEnv& env);
  /// Whether the caller would expect it of "auto" here: nccl where there are GPUs. Null: always.
  bool (*is_expected)(const WorkerEnv& env) = nullptr;
};

struct BackendChoice {
  const BackendEntry* entry = nullptr;
  std::string note{};  ///< why it is not the first choice of "auto"; empty if it is
};

/// In the order in which "auto" tries them.
std::span<const BackendEntry> backend_entries();

/// The backend of `entries` that `options` ask for. Throws Error{Errc::usage} if it is unknown, or
/// with the reason of the first choice if none can be used.
BackendChoice choose_backend(std::span<const BackendEntry> entries, const WorkerEnv& env,
                             const GroupOptions& options);

/// That of this name, which there is.
const BackendEntry& find_backend(const std::string& name);

}  // namespace ddprun
