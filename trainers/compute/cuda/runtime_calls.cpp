#include "trainers/compute/cuda/real_calls.hpp"

namespace trainer::cuda {

const RuntimeCalls& runtime_calls() {
  static constexpr RuntimeCalls kCalls{
      .get_device_count = ::cudaGetDeviceCount,
      .set_device = ::cudaSetDevice,
      .get_attribute = ::cudaDeviceGetAttribute,
      .device_name =
          [](int device) {
            cudaDeviceProp properties{};
            const bool is_known = ::cudaGetDeviceProperties(&properties, device) == cudaSuccess;
            return std::string(is_known ? properties.name : "of unknown name");
          },
      .stream_create = ::cudaStreamCreateWithFlags,
      .stream_destroy = ::cudaStreamDestroy,
      .stream_synchronize = ::cudaStreamSynchronize,
      .allocate = ::cudaMalloc,
      .free = ::cudaFree,
      .copy_async = ::cudaMemcpyAsync,
      .set_async = ::cudaMemsetAsync,
      .error_string = ::cudaGetErrorString};
  return kCalls;
}

}  // namespace trainer::cuda
