// A Compute on the fake's CUDA devices: our own kernels on the processor, and plain loops in place
// of cuBLAS.
#pragma once

#include "trainers/compute/cuda/cuda_compute.hpp"

namespace ddprun::test {

const trainer::cuda::Calls& emulated_calls();

inline std::unique_ptr<trainer::Compute> make_emulated_compute(int index = 0) {
  return trainer::cuda::make_compute(emulated_calls(), index);
}

}  // namespace ddprun::test
