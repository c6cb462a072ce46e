// The kernels of each instruction set. Used by kernel_sets().
#pragma once

#include "worker_runtime/collectives/reduce_kernels.hpp"

namespace ddprun::collectives {

Combine find_baseline_kernel(DataType type, ReduceOp op);
Combine find_avx2_kernel(DataType type, ReduceOp op);
Combine find_avx512_kernel(DataType type, ReduceOp op);

}  // namespace ddprun::collectives
