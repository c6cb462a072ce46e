#include "worker_runtime/collectives/reduce_kernels_impl.hpp"
#include "worker_runtime/collectives/reduce_kernels_sets.hpp"

namespace ddprun::collectives {

Combine find_baseline_kernel(DataType type, ReduceOp op) {
  return find_kernel<struct Baseline>(type, op);
}

}  // namespace ddprun::collectives
