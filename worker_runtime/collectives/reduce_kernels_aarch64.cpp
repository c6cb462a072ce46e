// The kernels of aarch64, whose baseline has vector instructions.
#include "worker_runtime/collectives/reduce_kernels_sets.hpp"

namespace ddprun::collectives {

namespace {

constexpr KernelSet kSets[] = {{"baseline", [] { return true; }, find_baseline_kernel}};

}  // namespace

std::span<const KernelSet> kernel_sets() {
  return kSets;
}

}  // namespace ddprun::collectives
