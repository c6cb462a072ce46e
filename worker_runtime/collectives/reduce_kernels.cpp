#include "worker_runtime/collectives/reduce_kernels.hpp"

#include "worker_runtime/collectives/reduce_kernels_sets.hpp"

#include <algorithm>
#include <iterator>

namespace ddprun::collectives {

namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}

}  // namespace

const KernelSet kKernelSets[kKernelSetCount] = {
    {"avx512", has_avx512, find_avx512_kernel},
    {"avx2", has_avx2, find_avx2_kernel},
    {"baseline", [] { return true; }, find_baseline_kernel},
};

Combine combine_function(DataType type, ReduceOp op) {
  static const KernelSet* const best =
      std::find_if(std::begin(kKernelSets), std::end(kKernelSets),
                   [](const KernelSet& set) { return set.available(); });
  return best->find(type, op);
}

}  // namespace ddprun::collectives
