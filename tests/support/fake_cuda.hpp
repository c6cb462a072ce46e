// Fake CUDA devices for tests without a GPU: memory of this machine and a thread for each stream.
// Like CUDA's runtime they belong to the process.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"

#include <atomic>
#include <functional>

namespace ddprun::test {

const cuda::CudaCalls& fake_cuda();

inline constexpr int kFakeDevices = 2;

/// Fault of a device, until it is reset.
struct CudaFaults {
  static constexpr int kNone = -1;
  std::atomic<int> closed = kNone;     ///< creating a stream hangs
  std::atomic<int> silent = kNone;     ///< its work never completes
  std::atomic<int> forgetful = kNone;  ///< a bit of its largest memory stays 1
  std::atomic<int> slow = kNone;       ///< each work takes kFakeSlowness times as long

  void take_back() {
    forgetful = slow = silent = closed = kNone;
    silent.notify_all();
    closed.notify_all();
  }
};
CudaFaults& cuda_faults();

/// Working time of a device by a clock of its own; equal for each work.
double fake_seconds(int device);
inline constexpr int kFakeSlowness = 5;

/// Number of streams, events and memory blocks that have not been freed.
int fake_cuda_objects();

/// Number of calls of CUDA and NCCL by threads whose current device was not that of the object.
/// Such a call initialises CUDA on a device of other ranks, or fails.
int fake_strays();

/// The current device of the thread.
int fake_device();

/// Counts a stray unless the thread's current device is `device`.
void check_fake_device(int device);

/// Runs `work` on `stream` of the fake in order, like a CUDA kernel.
void launch_on(cudaStream_t stream, std::function<void()> work);

}  // namespace ddprun::test
