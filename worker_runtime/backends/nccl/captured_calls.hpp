// Collectives that become part of a graph: while the caller's stream is captured, a stream of our
// own joins the capture behind it, takes the calls one after another, and the caller's streams join
// their ends again. Nothing here is ever asked whether it has happened: in a capture nothing does.
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

  /// Throws Error{Errc::usage} if calls of another capture, one that has not ended, are on the
  /// stream.
  void require_free(std::uint64_t capture) const;

  /// What stream() is given until end() comes behind what `caller`, which is part of `capture`, has
  /// been given.
  void begin(cudaStream_t caller, std::uint64_t capture);
  cudaStream_t stream() const { return stream_.get(); }

  /// Returns the call's number in its capture, from 1.
  std::uint64_t end();

  /// Any thread: what `caller` is given from now on comes behind that call. Throws
  /// Error{Errc::usage} if it is not part of `capture`.
  void hold(cudaStream_t caller, std::uint64_t capture, std::uint64_t call);

 private:
  const cuda::CudaCalls& calls_;
  const cuda::Stream stream_;
  cuda::EventPool events_;
  std::mutex mutex_;  ///< for what follows
  std::uint64_t capture_ = 0;
  std::vector<cuda::Event*> ends_;  ///< of that capture's calls
};

}  // namespace ddprun::nccl
