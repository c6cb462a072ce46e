// Copies, scales, converts and adds the elements of many pieces of memory in one launch. Plain CUDA
// C++ for nvcc, and for a host compiler with an emulation of the device.
//
// Pieces are divided into tiles, one for each block. If skipping the same few elements
// aligns source and destination of a piece, threads move vectors of 16 bytes (of the wider type),
// and the skipped and remaining elements one by one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ddprun::cuda {

inline constexpr unsigned kConvertThreads = 256;
/// Vectors that a thread loads before it stores. 1024 threads of a multiprocessor then have 64 KiB
/// in flight; an H200 needs about 30 (4.8 TB/s for 0.8 us, over 132 multiprocessors).
inline constexpr unsigned kVectorsInFlight = 4;
/// Fits into the 4 KiB of kernel parameters that all toolkits support.
inline constexpr std::size_t kFewPieces = 100;
/// Largest number of pieces of a launch; fits into the parameters that the toolkit supports, 32 KiB
/// since 12.1.
inline constexpr std::size_t kManyPieces = CUDART_VERSION >= 12010 ? 800 : kFewPieces;

/// Elements of a vector: 16 bytes of the wider type.
template <typename From, typename To>
inline constexpr unsigned kVectorWidth = 16 /
                                         (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));

struct ConvertPiece {
  const void* from;
  void* to;
  std::size_t elements;
  std::uint16_t head;     ///< number of elements before source and destination are aligned
  std::uint16_t aligned;  ///< can be moved by vectors
};

template <std::size_t kMost>
struct ConvertBatch {
  ConvertPiece pieces[kMost];
  unsigned first_tiles[kMost];  ///< of each piece among the tiles of all; apart, for a fast search
  unsigned count;
  unsigned tiles;
};

/// Copies bitwise.
template <typename T>
struct Copied {
  __device__ T operator()(T value) const { return value; }
};

inline __device__ float widened(__half value) {
  return __half2float(value);
}
inline __device__ float widened(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
inline __device__ float widened(float value) {
  return value;
}
inline __device__ double widened(double value) {
  return value;
}

inline __device__ void round_to(float value, __half& to) {
  to = __float2half_rn(value);
}
inline __device__ void round_to(double value, __half& to) {
  to = __double2half(value);
}
inline __device__ void round_to(float value, __nv_bfloat16& to) {
  to = __float2bfloat16_rn(value);
}
inline __device__ void round_to(double value, __nv_bfloat16& to) {
  to = __double2bfloat16(value);
}
inline __device__ void round_to(float value, float& to) {
  to = value;
}
inline __device__ void round_to(double value, float& to) {
  to = static_cast<float>(value);
}
inline __device__ void round_to(double value, double& to) {
  to = value;
}

/// Multiplies in float64 if one of the types is float64, otherwise in float32, and rounds once.
template <typename From, typename To>
struct Scaled {
  static constexpr bool kIsDouble = std::is_same_v<From, double> || std::is_same_v<To, double>;
  using Factor = std::conditional_t<kIsDouble, double, float>;
  Factor scale;

  __device__ To operator()(From value) const {
    To result;
    round_to(static_cast<Factor>(widened(value)) * scale, result);
    return result;
  }
};

/// Divides by an integer, with one rounding: a product with its inverse would round twice.
template <typename T>
struct Divided {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Wide divisor;

  __device__ T operator()(T value) const {
    T result;
    round_to(static_cast<Wide>(widened(value)) / divisor, result);
    return result;
  }
};

/// Adds to the destination.
template <typename From>
struct Added {
  __device__ float operator()(From value, float sum) const { return sum + widened(value); }
};

template <typename Each>
inline constexpr bool kReadsResult = false;
template <typename From>
inline constexpr bool kReadsResult<Added<From>> = true;

template <typename T, unsigned kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T values[kWidth];
};

/// Processes the block's share, units of kWidth elements from `first` to `end`. All loads of a
/// round precede its stores; a compiler could not reorder them.
template <unsigned kWidth, typename From, typename To, typename Each>
__device__ void convert_units(const From* from, To* to, std::size_t first, std::size_t end,
                              const Each& each) {
  const auto* sources = reinterpret_cast<const Vector<From, kWidth>*>(from);
  auto* destinations = reinterpret_cast<Vector<To, kWidth>*>(to);
  constexpr unsigned kRound = kConvertThreads * kVectorsInFlight;
  for (std::size_t begin = first + threadIdx.x; begin < end; begin += kRound) {
    Vector<From, kWidth> loaded[kVectorsInFlight];
    Vector<To, kWidth> before[kVectorsInFlight];
    for (unsigned i = 0; i < kVectorsInFlight; ++i) {
      const std::size_t unit = begin + i * kConvertThreads;
      if (unit >= end) break;
      loaded[i] = sources[unit];
      if constexpr (kReadsResult<Each>) before[i] = destinations[unit];
    }
    for (unsigned i = 0; i < kVectorsInFlight; ++i) {
      const std::size_t unit = begin + i * kConvertThreads;
      if (unit >= end) break;
      Vector<To, kWidth> converted;
      for (unsigned k = 0; k < kWidth; ++k) {
        if constexpr (kReadsResult<Each>) {
          converted.values[k] = each(loaded[i].values[k], before[i].values[k]);
        } else {
          converted.values[k] = each(loaded[i].values[k]);
        }
      }
      destinations[unit] = converted;
    }
  }
}

/// Processes tile `tile` of `piece`.
template <typename From, typename To, typename Each>
__device__ void convert_tile(const ConvertPiece& piece, std::size_t tile, const Each& each) {
  constexpr unsigned kWidth = kVectorWidth<From, To>;
  constexpr std::size_t kVectors = kConvertThreads * kVectorsInFlight;
  const auto* from = static_cast<const From*>(piece.from);
  auto* to = static_cast<To*>(piece.to);
  if (!piece.aligned) {
    constexpr std::size_t kElements = kVectors * kWidth;
    const std::size_t end = (tile + 1) * kElements;
    convert_units<1>(from, to, tile * kElements, end < piece.elements ? end : piece.elements, each);
    return;
  }
  const std::size_t vectors = (piece.elements - piece.head) / kWidth;
  const std::size_t end = (tile + 1) * kVectors;
  convert_units<kWidth>(from + piece.head, to + piece.head, tile * kVectors,
                        end < vectors ? end : vectors, each);
  if (tile > 0) return;
  convert_units<1>(from, to, 0, piece.head, each);
  convert_units<1>(from, to, piece.head + vectors * kWidth, piece.elements, each);
}

template <std::size_t kMost>
__device__ unsigned piece_of(const ConvertBatch<kMost>& batch, unsigned tile) {
  unsigned first = 0;
  for (unsigned end = batch.count; end - first > 1;) {
    const unsigned middle = (first + end) / 2;
    (batch.first_tiles[middle] <= tile ? first : end) = middle;
  }
  return first;
}

/// One block per tile; blocks are scheduled as resources become free.
template <typename From, typename To, typename Each, std::size_t kMost>
__global__ void __launch_bounds__(kConvertThreads)
    convert_kernel(const __grid_constant__ ConvertBatch<kMost> batch, const Each each) {
  const unsigned index = piece_of(batch, blockIdx.x);
  convert_tile<From, To>(batch.pieces[index], blockIdx.x - batch.first_tiles[index], each);
}

}  // namespace ddprun::cuda
