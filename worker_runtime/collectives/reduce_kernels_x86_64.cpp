// The kernels of x86-64.
#include "worker_runtime/collectives/reduce_kernels_sets.hpp"

namespace ddprun::collectives {

namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}

constexpr KernelSet kSets[] = {
    {"avx512", has_avx512, find_avx512_kernel},
    {"avx2", has_avx2, find_avx2_kernel},
    {"baseline", [] { return true; }, find_baseline_kernel},
};

}  // namespace

std::span<const KernelSet> kernel_sets() {
  return kSets;
}

}  // namespace ddprun::collectives
