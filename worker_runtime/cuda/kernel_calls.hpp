// Function table of our kernels: compiled by nvcc, or of a test without a GPU.
#pragma once

#include "worker_runtime/cuda/device_piece.hpp"
#include <ddprun/buffer.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace ddprun::cuda {

using Piece = DevicePiece;

struct KernelCalls {
  /// to[i] = from[i] * scale in each piece, with conversion of the type. Half types are multiplied
  /// in float32 and rounded once, to the nearest. With a scale of 1 and equal types elements are
  /// copied bitwise; otherwise the types must be float types. NaN stays NaN with unspecified bits.
  /// In place only with equal types. Asynchronous on `stream`; `pieces` may be freed after the
  /// call.
  cudaError_t (*convert)(std::span<const Piece> pieces, DataType from, DataType to, double scale,
                         cudaStream_t stream);
  /// to[i] += from[i] in each piece, from a half type or float32 to float32. All pieces must be
  /// disjoint. Otherwise like convert().
  cudaError_t (*add)(std::span<const Piece> pieces, DataType from, cudaStream_t stream);
  /// values[i] /= divisor, for a float type; half types are divided in float32 and rounded once.
  /// Asynchronous on `stream`.
  cudaError_t (*divide)(void* values, std::size_t elements, DataType type, double divisor,
                        cudaStream_t stream);
};

/// The kernels compiled by nvcc.
const KernelCalls& kernel_calls();

}  // namespace ddprun::cuda
