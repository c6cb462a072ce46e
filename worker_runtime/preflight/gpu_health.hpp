// Judges the state of a GPU that the driver reports. Pure; thread-safe.
#pragma once

#include "worker_runtime/preflight/nvml.hpp"

#include <string>

namespace ddprun::preflight {

struct GpuHealth {
  std::string problem{};  ///< reason not to use the GPU; empty: none
  std::string remark{};   ///< a warning; empty: none

  bool operator==(const GpuHealth&) const = default;
};

/// Errors of the memory that require a reset or a replacement are problems, as for NVIDIA's tools.
/// Reduced clocks are a remark, except for an idle GPU, limits that an operator sets and the
/// software's power limit, which are normal.
GpuHealth judge_health(const GpuState& state);

}  // namespace ddprun::preflight
