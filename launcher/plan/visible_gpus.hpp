// The GPUs that a CUDA program would see, computed from CUDA_VISIBLE_DEVICES by CUDA's rules,
// without a GPU library. Pure; any thread.
#pragma once

#include "launcher/plan/topology.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The visible GPUs as entries of CUDA_VISIBLE_DEVICES: indices ("2"), or as given by UUID
/// ("GPU-9e8d35e3", a unique beginning is enough) or MIG device ("MIG-..."). Without the variable
/// all `installed` ones. Like CUDA, stops at the first entry that names no GPU or is of another
/// sort than the first, and sees none if one is named twice. `read_gpus` is called only if there
/// are UUIDs; those of GPUs whose UUID it does not tell are believed.
std::vector<std::string> visible_gpus(const std::optional<std::string>& cuda_visible_devices,
                                      int installed,
                                      const std::function<std::vector<GpuFacts>()>& read_gpus);

/// Returns the NUMA node of each entry; -1 if unknown.
std::vector<int> nodes_of_gpus(const std::vector<std::string>& entries,
                               const std::vector<GpuFacts>& gpus);

}  // namespace ddprun
