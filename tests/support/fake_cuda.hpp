// CUDA devices made of this machine's memory and of a thread for each stream, for what is to be
// tested where there is no GPU. As CUDA's runtime they are the process' own.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"

#include <functional>

namespace ddprun::test {

const cuda::CudaCalls& fake_cuda();

inline constexpr int kFakeDevices = 2;

/// Streams, events and pieces of memory that have not been freed.
int fake_cuda_objects();

/// Lets `stream` of the fake carry `work` out in its turn; CUDA's kernels are that.
void launch_on(cudaStream_t stream, std::function<void()> work);

}  // namespace ddprun::test
