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
};

/// In the order in which "auto" tries them.
std::span<const BackendEntry> backend_entries();

/// The backend that `options` ask for. Throws Error{Errc::usage} with the reason if it is unknown
/// or cannot be used.
const BackendEntry& choose_backend(const WorkerEnv& env, const GroupOptions& options);

/// That of this name, which there is.
const BackendEntry& find_backend(const std::string& name);

}  // namespace ddprun
