// One launch for many arrays: a table of pieces is passed as a kernel parameter, and each block
// finds the piece of its tile. A launch costs microseconds, and a model has hundreds of mostly
// small parameters.
#pragma once

#include "trainers/gpt2/cuda/kernels/sums.cuh"

namespace trainer::cuda {

/// Packs per thread of a tile.
inline constexpr unsigned kPacksOfThread = 4;

/// Elements of a tile, for packs of kWidth elements.
template <int kWidth>
inline constexpr std::size_t kTile = std::size_t{kThreads} * kPacksOfThread* kWidth;

template <typename Each>
struct Piece {
  Each each;
  std::size_t elements;
  unsigned first_tile;
  bool is_wide;  ///< can be moved by packs
};

/// Before CUDA 12.1 kernels have at most 4 KiB of parameters, including those besides the table.
template <typename Each>
inline constexpr unsigned kPiecesMax = (4096 - 64) / sizeof(Piece<Each>);

template <typename Each>
struct PieceTable {
  Piece<Each> pieces[kPiecesMax<Each>];
  unsigned count;
  unsigned tiles;
};

/// Returns the piece of the calling block.
template <typename Each>
__device__ const Piece<Each>& own_piece(const PieceTable<Each>& table) {
  unsigned low = 0;
  unsigned high = table.count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (table.pieces[middle].first_tile <= blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return table.pieces[low];
}

/// Calls each.at<>(first) for all elements of the calling block's tile.
template <int kWidth, typename Each>
__device__ void for_own_tile(const Piece<Each>& piece, const Each& each) {
  const std::size_t begin = (blockIdx.x - piece.first_tile) * kTile<kWidth>;
  for (unsigned pack = 0; pack < kPacksOfThread; ++pack) {
    const std::size_t first = begin + (pack * kThreads + threadIdx.x) * kWidth;
    if (first < piece.elements) each.template at<kWidth>(first);
  }
}

template <int kWidth, typename Each>
__global__ void __launch_bounds__(kThreads)
    pieces_kernel(const __grid_constant__ PieceTable<Each> table) {
  const Piece<Each>& piece = own_piece(table);
  if (piece.is_wide) {
    for_own_tile<kWidth>(piece, piece.each);
  } else {
    for_own_tile<1>(piece, piece.each);
  }
}

/// Adds the terms of sum_pieces_kernel in order.
template <typename T>
struct SumEach {
  const T* values;
};

/// Each block writes the sum of its tile to `partial`.
template <int kWidth, bool kSquares, typename T>
__global__ void __launch_bounds__(kThreads)
    sum_pieces_kernel(const __grid_constant__ PieceTable<SumEach<T>> table, double* partial) {
  const Piece<SumEach<T>>& piece = own_piece(table);
  double sum = 0;
  const auto add_tile = [&](auto width) {
    constexpr int kOwnWidth = decltype(width)::value;
    const std::size_t begin = (blockIdx.x - piece.first_tile) * kTile<kOwnWidth>;
    for (unsigned pack = 0; pack < kPacksOfThread; ++pack) {
      const std::size_t first = begin + (pack * kThreads + threadIdx.x) * kOwnWidth;
      if (first >= piece.elements) break;
      float loaded[kOwnWidth];
      load(piece.each.values + first, loaded);
      for (int i = 0; i < kOwnWidth; ++i) {
        const auto value = static_cast<double>(loaded[i]);
        sum += kSquares ? value * value : value;
      }
    }
  };
  if (piece.is_wide) {
    add_tile(std::integral_constant<int, kWidth>{});
  } else {
    add_tile(std::integral_constant<int, 1>{});
  }
  sum = combine_block(sum, 0.0, Add{});
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

}  // namespace trainer::cuda
