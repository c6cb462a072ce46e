// Implementation of KernelCalls::convert(): selects the kernel and distributes pieces over
// launches. The caller launches kernels, and must include what they use before this file.
#pragma once

#include "worker_runtime/cuda/kernel_calls.hpp"
#include "worker_runtime/cuda/kernels/convert.cuh"

#include <algorithm>
#include <cstdint>
#include <span>

namespace ddprun::cuda {

/// Computes how many leading elements precede the vectors of a piece, and whether it can have any.
template <typename From, typename To>
ConvertPiece laid_out(const Piece& piece) {
  constexpr std::size_t kWidth = kVectorWidth<From, To>;
  const auto distance = [](const void* at, std::size_t alignment) {
    return (alignment - reinterpret_cast<std::uintptr_t>(at) % alignment) % alignment;
  };
  const std::size_t head = distance(piece.to, kWidth * sizeof(To)) / sizeof(To);
  const bool aligned = distance(piece.from, kWidth * sizeof(From)) == head * sizeof(From);
  return {.from = piece.from,
          .to = piece.to,
          .elements = piece.elements,
          .head = static_cast<std::uint16_t>(aligned ? std::min(head, piece.elements) : 0),
          .aligned = aligned};
}

template <typename From, typename To>
unsigned tiles_of(const ConvertPiece& piece) {
  constexpr std::size_t kElements =
      std::size_t{kConvertThreads} * kVectorsInFlight * kVectorWidth<From, To>;
  const std::size_t tiles = (piece.elements - piece.head + kElements - 1) / kElements;
  return static_cast<unsigned>(std::max<std::size_t>(tiles, 1));
}

template <typename From, typename To, std::size_t kMost, typename Each, typename Launch>
cudaError_t convert_batches(std::span<const Piece> pieces, const Each& each, const Launch& launch) {
  const auto kernel = convert_kernel<From, To, Each, kMost>;
  ConvertBatch<kMost> batch{};
  for (const Piece& piece : pieces) {
    if (piece.elements == 0) continue;
    if (batch.count == kMost) {
      const cudaError_t error = launch(kernel, batch, each);
      if (error != cudaSuccess) return error;
      batch = {};
    }
    const ConvertPiece added = laid_out<From, To>(piece);
    batch.pieces[batch.count] = added;
    batch.first_tiles[batch.count++] = batch.tiles;
    batch.tiles += tiles_of<From, To>(added);
  }
  return batch.count == 0 ? cudaSuccess : launch(kernel, batch, each);
}

/// Launches take longer with more parameters.
template <typename From, typename To, typename Each, typename Launch>
cudaError_t convert_each(std::span<const Piece> pieces, const Each& each, const Launch& launch) {
  if (pieces.size() <= kFewPieces)
    return convert_batches<From, To, kFewPieces>(pieces, each, launch);
  return convert_batches<From, To, kManyPieces>(pieces, each, launch);
}

template <typename T, typename Launch>
cudaError_t copy_each(std::span<const Piece> pieces, const Launch& launch) {
  return convert_each<T, T>(pieces, Copied<T>{}, launch);
}

template <typename Launch>
cudaError_t copy_pieces(std::span<const Piece> pieces, std::size_t element_bytes,
                        const Launch& launch) {
  if (element_bytes == 1) return copy_each<std::uint8_t>(pieces, launch);
  if (element_bytes == 2) return copy_each<std::uint16_t>(pieces, launch);
  if (element_bytes == 4) return copy_each<std::uint32_t>(pieces, launch);
  return copy_each<std::uint64_t>(pieces, launch);
}

template <typename From, typename To, typename Launch>
cudaError_t scale_each(std::span<const Piece> pieces, double scale, const Launch& launch) {
  using Each = Scaled<From, To>;
  return convert_each<From, To>(pieces, Each{.scale = static_cast<typename Each::Factor>(scale)},
                                launch);
}

template <typename From, typename Launch>
cudaError_t scale_from(std::span<const Piece> pieces, DataType to, double scale,
                       const Launch& launch) {
  if (to == DataType::float32) return scale_each<From, float>(pieces, scale, launch);
  if (to == DataType::float64) return scale_each<From, double>(pieces, scale, launch);
  if (to == DataType::float16) return scale_each<From, __half>(pieces, scale, launch);
  if (to == DataType::bfloat16) return scale_each<From, __nv_bfloat16>(pieces, scale, launch);
  return cudaErrorInvalidValue;
}

/// Like KernelCalls::add(); `launch` as for convert_pieces().
template <typename Launch>
cudaError_t add_pieces(std::span<const Piece> pieces, DataType from, const Launch& launch) {
  if (from == DataType::float16)
    return convert_each<__half, float>(pieces, Added<__half>{}, launch);
  if (from == DataType::bfloat16)
    return convert_each<__nv_bfloat16, float>(pieces, Added<__nv_bfloat16>{}, launch);
  if (from == DataType::float32) return convert_each<float, float>(pieces, Added<float>{}, launch);
  return cudaErrorInvalidValue;
}

template <typename T, typename Launch>
cudaError_t divide_each(const Piece& piece, double divisor, const Launch& launch) {
  using Each = Divided<T>;
  const Each each{.divisor = static_cast<typename Each::Wide>(divisor)};
  return convert_batches<T, T, kFewPieces>(std::span(&piece, 1), each, launch);
}

/// Like KernelCalls::divide(); `launch` as for convert_pieces().
template <typename Launch>
cudaError_t divide_values(void* values, std::size_t elements, DataType type, double divisor,
                          const Launch& launch) {
  const Piece piece{values, values, elements};
  if (type == DataType::float32) return divide_each<float>(piece, divisor, launch);
  if (type == DataType::float64) return divide_each<double>(piece, divisor, launch);
  if (type == DataType::float16) return divide_each<__half>(piece, divisor, launch);
  if (type == DataType::bfloat16) return divide_each<__nv_bfloat16>(piece, divisor, launch);
  return cudaErrorInvalidValue;
}

/// Like KernelCalls::convert(). `launch(kernel, batch, each)` runs the kernel with batch.tiles
/// blocks of kConvertThreads threads.
template <typename Launch>
cudaError_t convert_pieces(std::span<const Piece> pieces, DataType from, DataType to, double scale,
                           const Launch& launch) {
  if (from == to && scale == 1.0) return copy_pieces(pieces, size_of(from), launch);
  if (from == DataType::float32) return scale_from<float>(pieces, to, scale, launch);
  if (from == DataType::float64) return scale_from<double>(pieces, to, scale, launch);
  if (from == DataType::float16) return scale_from<__half>(pieces, to, scale, launch);
  if (from == DataType::bfloat16) return scale_from<__nv_bfloat16>(pieces, to, scale, launch);
  return cudaErrorInvalidValue;
}

}  // namespace ddprun::cuda
