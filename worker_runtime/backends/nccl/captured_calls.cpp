#include "worker_runtime/backends/nccl/captured_calls.hpp"

#include <ddprun/error.hpp>

#include <utility>

namespace ddprun::nccl {

void CapturedCalls::require_free(std::uint64_t capture) const {
  const auto refuse = [] {
    throw Error(Errc::usage,
                "another capture with calls of this group has not ended (cudaStreamEndCapture() "
                "comes first, after hold() of all its calls)");
  };
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long ignored = 0;
  cuda::check(calls_, calls_.get_capture_info(stream_.get(), &status, &ignored),
              "cudaStreamGetCaptureInfo");
  if (status == cudaStreamCaptureStatusInvalidated) refuse();
  if (status == cudaStreamCaptureStatusActive && cuda::capture_of(calls_, stream_.get()) != capture)
    refuse();
}

void CapturedCalls::begin(cudaStream_t caller, std::uint64_t capture) {
  {
    const std::lock_guard lock(mutex_);
    if (capture_ != capture) {
      for (cuda::Event* const old : std::exchange(ends_, {})) events_.give_back(*old);
    }
    capture_ = capture;
  }
  cuda::Event& fork = events_.take();
  fork.record(caller);
  cuda::check(calls_, calls_.stream_wait_event(stream_.get(), fork.get(), 0),
              "cudaStreamWaitEvent");
  events_.give_back(fork);
}

std::uint64_t CapturedCalls::end() {
  cuda::Event& end = events_.take();
  end.record(stream_.get());
  const std::lock_guard lock(mutex_);
  ends_.push_back(&end);
  return ends_.size();
}

void CapturedCalls::hold(cudaStream_t caller, std::uint64_t capture, std::uint64_t call) {
  if (cuda::capture_of(calls_, caller) != capture) {
    throw Error(Errc::usage,
                "a stream is to wait for a call that was captured, and is not part of that capture "
                "(the call runs when its graph is launched: order the stream behind that)");
  }
  const std::lock_guard lock(mutex_);
  cuda::check(calls_, calls_.stream_wait_event(caller, ends_[call - 1]->get(), 0),
              "cudaStreamWaitEvent");
}

}  // namespace ddprun::nccl
