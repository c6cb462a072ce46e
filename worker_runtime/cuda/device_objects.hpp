// Streams, events and memory of a CUDA device, each freed with its owner. Of the device that was
// set when they were made; `calls` outlive them.
#pragma once

#include "worker_runtime/cuda/cuda_calls.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace ddprun::cuda {

/// Not ordered with the work of any other stream.
class Stream {
 public:
  explicit Stream(const CudaCalls& calls) : calls_(calls) {
    check(calls, calls.stream_create(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { calls_.stream_destroy(stream_); }

  cudaStream_t get() const { return stream_; }

 private:
  const CudaCalls& calls_;
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const CudaCalls& calls) : calls_(calls) {
    check(calls, calls.event_create(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { calls_.event_destroy(event_); }

  /// Happens once all that `stream` has been given so far is done.
  void record(cudaStream_t stream) {
    check(calls_, calls_.event_record(event_, stream), "cudaEventRecord");
  }

  /// Throws Error{Errc::cuda} if something on the device has failed.
  bool has_happened() const {
    const cudaError_t state = calls_.event_query(event_);
    if (state == cudaErrorNotReady) return false;
    check(calls_, state, "work on the device");
    return true;
  }

  cudaEvent_t get() const { return event_; }

 private:
  const CudaCalls& calls_;
  cudaEvent_t event_ = nullptr;
};

/// Grows to the largest that is asked for, and is used again.
class Scratch {
 public:
  explicit Scratch(const CudaCalls& calls) : calls_(calls) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { calls_.free(memory_); }

  /// Nothing on the device may use what was returned before.
  void* at_least(std::size_t bytes) {
    if (bytes <= bytes_) return memory_;
    calls_.free(std::exchange(memory_, nullptr));
    bytes_ = 0;
    check(calls_, calls_.allocate(&memory_, bytes),
          "cudaMalloc of " + std::to_string(bytes) + " bytes");
    bytes_ = bytes;
    return memory_;
  }

 private:
  const CudaCalls& calls_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ddprun::cuda
