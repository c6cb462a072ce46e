// Which GPUs a CUDA program started here would see. No GPU library is asked: CUDA's own reading of
// CUDA_VISIBLE_DEVICES is followed, as PyTorch's tests of it describe it. Pure; any thread.
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

/// The NUMA node of each of these entries; -1 where it is not known.
std::vector<int> nodes_of_gpus(const std::vector<std::string>& entries,
                               const std::vector<GpuFacts>& gpus);

}  // namespace ddprun
