#include "trainers/gpt2/cuda/real_calls.hpp"

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
      .error_string = ::cudaGetErrorString,
      .begin_capture = ::cudaStreamBeginCapture,
      .end_capture = ::cudaStreamEndCapture,
      .graph_destroy = ::cudaGraphDestroy,
      .graph_instantiate =
          [](cudaGraphExec_t* launched, cudaGraph_t graph) {
            return ::cudaGraphInstantiate(launched, graph, 0);
          },
      .graph_launch = ::cudaGraphLaunch,
      .launched_destroy = ::cudaGraphExecDestroy};
  return kCalls;
}

}  // namespace trainer::cuda
