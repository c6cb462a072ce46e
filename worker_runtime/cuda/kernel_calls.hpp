// What is asked of our own kernels, as a table of functions: those that nvcc made, or a test's that
// need no GPU.
#pragma once

#include "worker_runtime/cuda/device_piece.hpp"
#include <ddprun/buffer.hpp>

#include <cuda_runtime_api.h>

#include <span>

namespace ddprun::cuda {

using Piece = DevicePiece;

struct KernelCalls {
  /// to[i] = from[i] * scale in each piece, from elements of type `from` to such of type `to`. Half
  /// types are multiplied in float32 and rounded once, to the nearest; with a scale of 1 elements
  /// whose type stays are copied bit for bit. For float types, and for equal types with a scale of
  /// 1. A NaN becomes one, which is the device's choice. In place only where the types are equal.
  /// Returns once `stream` has been given the work; `pieces` may then be freed.
  cudaError_t (*convert)(std::span<const Piece> pieces, DataType from, DataType to, double scale,
                         cudaStream_t stream);
  /// to[i] += from[i] in each piece: elements of a half type or of float32 to such of float32.
  /// Apart, and no element twice. Otherwise as convert().
  cudaError_t (*add)(std::span<const Piece> pieces, DataType from, cudaStream_t stream);
};

/// Those that nvcc made.
const KernelCalls& kernel_calls();

}  // namespace ddprun::cuda
