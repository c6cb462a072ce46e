// What is asked of our own kernels, as a table of functions: those that nvcc made, or a test's that
// need no GPU.
#pragma once

#include <ddprun/buffer.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace ddprun::cuda {

/// So many elements from one place on the device to another one; both may be the same, or apart.
struct Piece {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t elements = 0;
};

struct KernelCalls {
  /// to[i] = from[i] * scale in each piece, from elements of type `from` to such of type `to`. Half
  /// types are multiplied in float32 and rounded once, to the nearest; with a scale of 1 elements
  /// whose type stays are copied bit for bit. For float types, and for equal types with a scale of
  /// 1. A NaN becomes one, which is the device's choice. In place only where the types are equal.
  /// Returns once `stream` has been given the work; `pieces` may then be freed.
  cudaError_t (*convert)(std::span<const Piece> pieces, DataType from, DataType to, double scale,
                         cudaStream_t stream);
};

/// Those that nvcc made.
const KernelCalls& kernel_calls();

}  // namespace ddprun::cuda
