#include "worker_runtime/cuda/cuda_calls.hpp"

namespace ddprun::cuda {

namespace {

/// Other results of this function differ between CUDA 12 and 13.
cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id) {
  return ::cudaStreamGetCaptureInfo(stream, status, id);
}

}  // namespace

const CudaCalls& runtime_calls() {
  static constexpr CudaCalls kCalls{.get_device_count = ::cudaGetDeviceCount,
                                    .set_device = ::cudaSetDevice,
                                    .stream_create = ::cudaStreamCreateWithFlags,
                                    .stream_destroy = ::cudaStreamDestroy,
                                    .stream_wait_event = ::cudaStreamWaitEvent,
                                    .event_create = ::cudaEventCreateWithFlags,
                                    .event_destroy = ::cudaEventDestroy,
                                    .event_record = ::cudaEventRecord,
                                    .event_query = ::cudaEventQuery,
                                    .allocate = ::cudaMalloc,
                                    .free = ::cudaFree,
                                    .copy_async = ::cudaMemcpyAsync,
                                    .get_last_error = ::cudaGetLastError,
                                    .error_string = ::cudaGetErrorString,
                                    .get_device = ::cudaGetDevice,
                                    .memset_async = ::cudaMemsetAsync,
                                    .stream_synchronize = ::cudaStreamSynchronize,
                                    .device_synchronize = ::cudaDeviceSynchronize,
                                    .get_properties = cudaGetDeviceProperties,
                                    .get_pci_bus_id = ::cudaDeviceGetPCIBusId,
                                    .get_capture_info = capture_info,
                                    .exchange_capture_mode = ::cudaThreadExchangeStreamCaptureMode};
  return kCalls;
}

}  // namespace ddprun::cuda
