// Health check of a worker's GPU through the CUDA module.
#pragma once

#include "worker_runtime/backends/nccl/nccl_backend.hpp"
#include "worker_runtime/preflight/exam.hpp"
#include "worker_runtime/preflight/nvml.hpp"

#include <cstddef>
#include <functional>

namespace ddprun::preflight {

struct GpuExamSettings {
  // Examined memory and matrix size; 0: defaults.
  std::size_t memory_bytes = 0;
  unsigned product_size = 0;
  std::function<double()> seconds{};  ///< clock; empty: the machine's
  const char* nvml = kNvmlFile;       ///< without this library, the driver's state is not judged
};

/// Throws Error if the GPU is faulty.
Exam examine_gpu(const CudaDevice& found, const GpuExamSettings& settings, Progress& progress);

/// Examines the worker's GPU, or its CPU resources if it has none.
Exam examine_own(const WorkerEnv& env, Progress& progress);

}  // namespace ddprun::preflight
