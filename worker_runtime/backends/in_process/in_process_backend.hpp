// Ranks that are threads of one process: the collectives of shared memory over an anonymous
// mapping.
#pragma once

#include "worker_runtime/backends/shared_memory/shared_memory_backend.hpp"

#include <memory>
#include <vector>

namespace ddprun {

/// One backend per rank. `reach` is there for tests, which take the ways of separate processes with
/// it.
std::vector<std::unique_ptr<Backend>> create_in_process_backends(
    int size, const GroupOptions& options,
    shared_memory::Reach reach = shared_memory::Reach::everything);

}  // namespace ddprun
