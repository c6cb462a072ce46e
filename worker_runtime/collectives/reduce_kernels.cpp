#include "worker_runtime/collectives/reduce_kernels.hpp"

#include <algorithm>

namespace ddprun::collectives {

Combine combine_function(DataType type, ReduceOp op) {
  static const auto best =
      std::ranges::find_if(kernel_sets(), [](const KernelSet& set) { return set.available(); });
  return best->find(type, op);
}

}  // namespace ddprun::collectives
