// Function table of CUDA's runtime: its own, or of a test without a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace ddprun::cuda {

struct CudaCalls {
  cudaError_t (*get_device_count)(int* count);
  cudaError_t (*set_device)(int device);
  cudaError_t (*stream_create)(cudaStream_t* stream, unsigned int flags);
  cudaError_t (*stream_destroy)(cudaStream_t stream);
  cudaError_t (*stream_wait_event)(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
  cudaError_t (*event_create)(cudaEvent_t* event, unsigned int flags);
  cudaError_t (*event_destroy)(cudaEvent_t event);
  cudaError_t (*event_record)(cudaEvent_t event, cudaStream_t stream);
  cudaError_t (*event_query)(cudaEvent_t event);
  cudaError_t (*allocate)(void** memory, std::size_t bytes);
  cudaError_t (*free)(void* memory);
  cudaError_t (*copy_async)(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
  cudaError_t (*get_last_error)();
  const char* (*error_string)(cudaError_t error);
  cudaError_t (*get_device)(int* device);
  cudaError_t (*memset_async)(void* memory, int value, std::size_t bytes, cudaStream_t stream);
  cudaError_t (*stream_synchronize)(cudaStream_t stream);
  cudaError_t (*device_synchronize)();
  cudaError_t (*get_properties)(cudaDeviceProp* properties, int device);
  cudaError_t (*get_pci_bus_id)(char* id, int length, int device);
  // Captures of streams into graphs. `id` is valid if the status is active.
  cudaError_t (*get_capture_info)(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                  unsigned long long* id);
  cudaError_t (*exchange_capture_mode)(cudaStreamCaptureMode* mode);
};

/// Functions of the linked runtime.
const CudaCalls& runtime_calls();

/// Throws Error{Errc::cuda}: "`what`: out of memory". `what` is a call and its arguments.
void check(const CudaCalls& calls, cudaError_t error, const std::string& what);

}  // namespace ddprun::cuda
