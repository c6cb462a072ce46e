// The kernels as nvcc makes them, and their launches.
#include "trainers/gpt2/cuda/kernel_table.hpp"
#include "trainers/gpt2/cuda/real_calls.hpp"

#include <cuda_runtime.h>

namespace trainer::cuda {

namespace {

struct LaunchOnDevice {
  cudaStream_t stream;

  template <typename... Parameters, typename... Arguments>
  cudaError_t operator()(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                         const Arguments&... arguments) const {
    cudaLaunchConfig_t shape{};
    shape.gridDim = grid;
    shape.blockDim = block;
    shape.stream = stream;
    return cudaLaunchKernelEx(&shape, kernel, Parameters(arguments)...);
  }
};

}  // namespace

const KernelCalls& device_kernels() {
  static const KernelCalls kTable = make_kernel_table<LaunchOnDevice>();
  return kTable;
}

}  // namespace trainer::cuda
