#include "worker_runtime/cuda/device_objects.hpp"
#include <ddprun/error.hpp>

namespace ddprun::cuda {

std::uint64_t capture_of(const CudaCalls& calls, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  const cudaError_t error = calls.get_capture_info(stream, &status, &id);
  if (error == cudaErrorStreamCaptureImplicit) {
    calls.get_last_error();
    throw Error(Errc::usage,
                "the default stream cannot be used while a stream that waits for it is captured "
                "(capture one made with cudaStreamNonBlocking, and set_stream() to it)");
  }
  check(calls, error, "cudaStreamGetCaptureInfo");
  if (status == cudaStreamCaptureStatusNone) return 0;
  if (status == cudaStreamCaptureStatusActive) return id + 1;
  throw Error(Errc::usage,
              "the stream's capture has failed before this call (cudaStreamEndCapture() ends it, "
              "and a new one may begin)");
}

}  // namespace ddprun::cuda
