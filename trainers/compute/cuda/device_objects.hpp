// A stream, a cuBLAS handle and memory of a CUDA device, each freed with its owner. Of the device
// that was set when they were made; the tables of calls outlive them.
#pragma once

#include "trainers/compute/cuda/calls.hpp"
#include <ddprun/error.hpp>

#include <string>
#include <utility>

namespace trainer::cuda {

/// Throws Error{Errc::cuda}: "`what`: out of memory". `what` is a call and its arguments.
inline void check(const RuntimeCalls& calls, cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  throw ddprun::Error(ddprun::Errc::cuda, what + ": " + calls.error_string(error));
}

inline void check(const BlasCalls& calls, cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw ddprun::Error(ddprun::Errc::cuda, what + ": " + calls.status_string(status));
}

class Stream {
 public:
  explicit Stream(const RuntimeCalls& calls) : calls_(calls) {
    check(calls, calls.stream_create(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { calls_.stream_destroy(stream_); }

  void wait() const {
    check(calls_, calls_.stream_synchronize(stream_), "work on the CUDA device");
  }
  cudaStream_t get() const { return stream_; }

 private:
  const RuntimeCalls& calls_;
  cudaStream_t stream_ = nullptr;
};

/// Works in `stream`, which outlives it.
class BlasHandle {
 public:
  BlasHandle(const BlasCalls& calls, const Stream& stream) : calls_(calls) {
    check(calls, calls.create(&handle_), "cublasCreate");
    const cublasStatus_t status = calls.set_stream(handle_, stream.get());
    if (status != CUBLAS_STATUS_SUCCESS) calls.destroy(handle_);
    check(calls, status, "cublasSetStream");
  }
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  ~BlasHandle() { calls_.destroy(handle_); }

  cublasHandle_t get() const { return handle_; }

 private:
  const BlasCalls& calls_;
  cublasHandle_t handle_ = nullptr;
};

/// Grows to the most that is asked for, and is used again by what comes later in the stream.
class Workspace {
 public:
  Workspace(const RuntimeCalls& calls, const Stream& stream) : calls_(calls), stream_(stream) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { calls_.free(memory_); }

  /// Waits when it grows, which a training does in its first step alone.
  void* at_least(std::size_t bytes) {
    if (bytes <= bytes_) return memory_;
    stream_.wait();
    calls_.free(std::exchange(memory_, nullptr));
    bytes_ = 0;
    check(calls_, calls_.allocate(&memory_, bytes),
          "cudaMalloc of " + std::to_string(bytes) + " bytes");
    bytes_ = bytes;
    return memory_;
  }

 private:
  const RuntimeCalls& calls_;
  const Stream& stream_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trainer::cuda
