// CUDA devices made of this machine's memory and of a thread for each stream, for what is to be
// tested where there is no GPU. As CUDA's runtime they are the process' own.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"

#include <atomic>
#include <functional>

namespace ddprun::test {

const cuda::CudaCalls& fake_cuda();

inline constexpr int kFakeDevices = 2;

/// What is wrong with which device, until it is taken back.
struct CudaFaults {
  static constexpr int kNone = -1;
  std::atomic<int> closed = kNone;     ///< no stream of it is ever made
  std::atomic<int> silent = kNone;     ///< nothing that it is given is ever done
  std::atomic<int> forgetful = kNone;  ///< a bit of its largest memory is 1, whatever is written
  std::atomic<int> slow = kNone;       ///< each work takes it kFakeSlowness times as long

  void take_back() {
    forgetful = slow = silent = closed = kNone;
    silent.notify_all();
    closed.notify_all();
  }
};
CudaFaults& cuda_faults();

/// How long a device has worked, by a clock of its own: as long for each work.
double fake_seconds(int device);
inline constexpr int kFakeSlowness = 5;

/// Streams, events and pieces of memory that have not been freed.
int fake_cuda_objects();

/// Lets `stream` of the fake carry `work` out in its turn; CUDA's kernels are that.
void launch_on(cudaStream_t stream, std::function<void()> work);

}  // namespace ddprun::test
