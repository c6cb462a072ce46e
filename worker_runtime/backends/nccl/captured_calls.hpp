// Collectives in a CUDA graph. While the caller's stream is captured, an internal stream joins the
// capture, gets the calls in order, and the caller's streams join their ends. Events are not
// queried, since captured work does not run.
#pragma once

#include "worker_runtime/cuda/device_objects.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace ddprun::nccl {

class CapturedCalls {
 public:
  CapturedCalls(const cuda::CudaCalls& calls, int device)
      : calls_(calls), stream_(calls, device), events_(calls) {}

  // One call at a time, on the device:

  /// Throws Error{Errc::usage} if the stream has calls of another active capture.
  void require_free(std::uint64_t capture) const;

  /// Makes work on stream() until end() depend on the current work of `caller` in `capture`.
  void begin(cudaStream_t caller, std::uint64_t capture);
  cudaStream_t stream() const { return stream_.get(); }

  /// Returns the 1-based index of the call in its capture.
  std::uint64_t end();

  /// Makes later work on `caller` depend on that call. Throws Error{Errc::usage} if it is not part
  /// of `capture`. Any thread.
  void hold(cudaStream_t caller, std::uint64_t capture, std::uint64_t call);

 private:
  const cuda::CudaCalls& calls_;
  const cuda::Stream stream_;
  cuda::EventPool events_;
  std::mutex mutex_;  ///< guards the members below
  std::uint64_t capture_ = 0;
  std::vector<cuda::Event*> ends_;  ///< ends of the capture's calls
};

}  // namespace ddprun::nccl
