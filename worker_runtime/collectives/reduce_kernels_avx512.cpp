#include "worker_runtime/collectives/reduce_kernels_impl.hpp"
#include "worker_runtime/collectives/reduce_kernels_sets.hpp"

namespace ddprun::collectives {

Combine find_avx512_kernel(DataType type, ReduceOp op) {
  return find_kernel<struct Avx512>(type, op);
}

}  // namespace ddprun::collectives
