// A Compute on the fake CUDA devices: the project's kernels on the CPU, and plain loops instead of
// cuBLAS.
#pragma once

#include "tests/support/fake_cuda.hpp"
#include "trainers/gpt2/cuda/cuda_compute.hpp"

#include <doctest/doctest.h>

namespace ddprun::test {

const trainer::cuda::Calls& emulated_calls();

/// By default on the device of device_ranks().
inline std::unique_ptr<trainer::Compute> make_emulated_compute(int index = 1) {
  return trainer::cuda::make_compute(emulated_calls(), index);
}

/// Checks on destruction that the test has freed all its device memory.
struct LeavesNothing {
  LeavesNothing() = default;
  LeavesNothing(const LeavesNothing&) = delete;
  LeavesNothing& operator=(const LeavesNothing&) = delete;
  ~LeavesNothing() { CHECK(fake_cuda_objects() == 0); }
};

/// Returns the number of kernel launches of all Computes so far.
int emulated_launches();

/// During its lifetime, kernels run the last thread and the last block first. Results must not
/// depend on that.
class BackwardsKernels {
 public:
  BackwardsKernels();
  BackwardsKernels(const BackwardsKernels&) = delete;
  BackwardsKernels& operator=(const BackwardsKernels&) = delete;
  ~BackwardsKernels();
};

}  // namespace ddprun::test
