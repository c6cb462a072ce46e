// RAII for a stream, memory and a cuBLAS handle of the current CUDA device. The tables of calls
// must outlive them.
#pragma once

#include "trainers/gpt2/cuda/calls.hpp"
#include <ddprun/error.hpp>

#include <memory>
#include <string>

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

/// Scratch memory of the largest requested size, reused by later operations of the stream.
class Workspace {
 public:
  Workspace(const RuntimeCalls& calls, const Stream& stream) : calls_(calls), stream_(stream) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Waits for the device when it grows, usually only in the first step.
  void* at_least(std::size_t bytes) {
    if (bytes <= bytes_) return memory_.get();
    stream_.wait();
    memory_.reset();
    bytes_ = 0;
    void* memory = nullptr;
    check(calls_, calls_.allocate(&memory, bytes),
          "cudaMalloc of " + std::to_string(bytes) + " bytes");
    memory_ = {memory, [free = calls_.free](void* address) { free(address); }};
    bytes_ = bytes;
    return memory;
  }

  /// Returns the current memory, which stays valid while held, even if the workspace grows.
  std::shared_ptr<void> hold() const { return memory_; }

 private:
  const RuntimeCalls& calls_;
  const Stream& stream_;
  std::shared_ptr<void> memory_;
  std::size_t bytes_ = 0;
};

/// Uses `stream`, which must outlive it.
class BlasHandle {
 public:
  BlasHandle(const Calls& calls, const Stream& stream)
      : calls_(*calls.blas), workspace_(*calls.runtime, stream) {
    void* const memory = workspace_.at_least(kWorkspaceBytes);
    check(calls_, calls_.create(&handle_), "cublasCreate");
    cublasStatus_t status = calls_.set_stream(handle_, stream.get());
    if (status == CUBLAS_STATUS_SUCCESS)
      status = calls_.set_workspace(handle_, memory, kWorkspaceBytes);
    if (status != CUBLAS_STATUS_SUCCESS) calls_.destroy(handle_);
    check(calls_, status, "cublasSetStream and cublasSetWorkspace");
  }
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  ~BlasHandle() { calls_.destroy(handle_); }

  cublasHandle_t get() const { return handle_; }

 private:
  /// cuBLAS's recommendation for compute capability 9.0, the largest of all. cuBLAS's own workspace
  /// would be allocated by each launch of a graph, and results could differ.
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;

  const BlasCalls& calls_;
  Workspace workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace trainer::cuda
