// Computes the GPUs that a CUDA program would see, from CUDA_VISIBLE_DEVICES by CUDA's rules,
// without a GPU library. Pure; thread-safe.
#pragma once

#include "launcher/plan/topology.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Returns the visible GPUs as entries of CUDA_VISIBLE_DEVICES: indices ("2"), UUIDs as given
/// ("GPU-9e8d35e3"; a unique prefix is sufficient) or MIG devices ("MIG-..."). Returns all
/// `installed` GPUs if the variable is not set, or `divided` if not empty. Like CUDA, stops at the
/// first entry that is invalid or of another kind than the first entry, and returns no GPUs if an
/// entry occurs twice. Calls `read_gpus` only if there are UUIDs; accepts all UUIDs if it cannot
/// read the UUIDs of all GPUs.
std::vector<std::string> visible_gpus(const std::optional<std::string>& cuda_visible_devices,
                                      int installed, const std::vector<std::string>& divided,
                                      const std::function<std::vector<GpuFacts>()>& read_gpus);

/// Returns the NUMA node of each entry; -1 if unknown.
std::vector<int> nodes_of_gpus(const std::vector<std::string>& entries,
                               const std::vector<GpuFacts>& gpus);

}  // namespace ddprun
