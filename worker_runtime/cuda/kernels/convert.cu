// Kernels for copies and conversions, compiled by nvcc, and their launches.
#include "worker_runtime/cuda/kernels/convert_launches.hpp"

#include <cuda_runtime.h>

static_assert(__cplusplus >= 202002L, "CMake does not hand its standard on to nvcc");

namespace ddprun::cuda {

namespace {

auto launch_on(cudaStream_t stream) {
  return [stream](auto* kernel, const auto& batch, const auto& each) {
    cudaLaunchConfig_t shape{};
    shape.gridDim = dim3(batch.tiles);
    shape.blockDim = dim3(kConvertThreads);
    shape.stream = stream;
    return cudaLaunchKernelEx(&shape, kernel, batch, each);
  };
}

cudaError_t convert(std::span<const Piece> pieces, DataType from, DataType to, double scale,
                    cudaStream_t stream) {
  return convert_pieces(pieces, from, to, scale, launch_on(stream));
}

cudaError_t add(std::span<const Piece> pieces, DataType from, cudaStream_t stream) {
  return add_pieces(pieces, from, launch_on(stream));
}

cudaError_t divide(void* values, std::size_t elements, DataType type, double divisor,
                   cudaStream_t stream) {
  return divide_values(values, elements, type, divisor, launch_on(stream));
}

}  // namespace

const KernelCalls& kernel_calls() {
  static constexpr KernelCalls kCalls{.convert = convert, .add = add, .divide = divide};
  return kCalls;
}

}  // namespace ddprun::cuda
