// Health check of a CPU worker's resources: memory keeps data and a matrix product is exact, on the
// cores and the NUMA node that the worker is bound to.
#pragma once

#include "worker_runtime/preflight/exam.hpp"

#include <cstddef>

namespace ddprun::preflight {

struct CpuExamSizes {
  /// Larger than a worker's share of the caches, and small compared with its memory use.
  std::size_t memory_bytes = std::size_t{64} << 20;
  std::size_t product_size = 256;  ///< rows of the matrices; takes some milliseconds
};

Exam examine_cpu(const CpuExamSizes& sizes, Progress& progress);

}  // namespace ddprun::preflight
