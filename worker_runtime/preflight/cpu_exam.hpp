// The look at what a worker on CPUs uses: memory keeps what is written, and a matrix product is
// right, on the cores and the NUMA node that it is bound to.
#pragma once

#include "worker_runtime/preflight/exam.hpp"

#include <cstddef>

namespace ddprun::preflight {

struct CpuExamSizes {
  /// Larger than the caches that a worker has for itself, and little beside what it will use.
  std::size_t memory_bytes = std::size_t{64} << 20;
  std::size_t product_size = 256;  ///< of the matrices: some milliseconds of a core
};

Exam examine_cpu(const CpuExamSizes& sizes, Progress& progress);

}  // namespace ddprun::preflight
