// The look at a worker's GPU, through the module that its collectives would go through.
#pragma once

#include "worker_runtime/backends/nccl/nccl_backend.hpp"
#include "worker_runtime/preflight/exam.hpp"

#include <cstddef>
#include <functional>

namespace ddprun::preflight {

struct GpuExamSettings {
  // 0: what is good for a device.
  std::size_t memory_bytes = 0;
  unsigned product_size = 0;
  std::function<double()> seconds{};  ///< a clock; none: the machine's
};

/// Throws Error with what is amiss.
Exam examine_gpu(const CudaDevice& found, const GpuExamSettings& settings, Progress& progress);

/// The worker's GPU or, where it has none, what it uses of the processor.
Exam examine_own(const WorkerEnv& env, Progress& progress);

}  // namespace ddprun::preflight
