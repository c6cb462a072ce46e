// A Compute on the fake's CUDA devices: our own kernels on the processor, and plain loops in place
// of cuBLAS.
#pragma once

#include "tests/support/fake_cuda.hpp"
#include "trainers/gpt2/cuda/cuda_compute.hpp"

#include <doctest/doctest.h>

namespace ddprun::test {

const trainer::cuda::Calls& emulated_calls();

inline std::unique_ptr<trainer::Compute> make_emulated_compute(int index = 0) {
  return trainer::cuda::make_compute(emulated_calls(), index);
}

/// For the length of a test, which frees all that it allocates on the devices.
struct LeavesNothing {
  LeavesNothing() = default;
  LeavesNothing(const LeavesNothing&) = delete;
  LeavesNothing& operator=(const LeavesNothing&) = delete;
  ~LeavesNothing() { CHECK(fake_cuda_objects() == 0); }
};

/// Kernels of a Compute that have been launched so far.
int emulated_launches();

/// For as long as it is there, kernels that are launched run the last thread and the last block
/// first. What they compute must not change by that.
class BackwardsKernels {
 public:
  BackwardsKernels();
  BackwardsKernels(const BackwardsKernels&) = delete;
  BackwardsKernels& operator=(const BackwardsKernels&) = delete;
  ~BackwardsKernels();
};

}  // namespace ddprun::test
