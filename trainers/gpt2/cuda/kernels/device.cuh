// Common parts of kernels: packs of elements, and sums over a warp and a block. All kernels are
// plain CUDA C++ for nvcc, and for a host compiler with an emulation of the device. Computation is
// in float32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace trainer::cuda {

using Bfloat16 = __nv_bfloat16;

inline constexpr int kLanes = 32;
inline constexpr unsigned kAllLanes = ~0U;
inline constexpr unsigned kThreads = 256;  // default block size

/// Elements of a pack: 16 bytes, the widest load and store.
template <typename T>
inline constexpr int kPackWidth = 16 / sizeof(T);

template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T items[kWidth];
};

inline __device__ float widened(float value) {
  return value;
}
inline __device__ float widened(Bfloat16 value) {
  return __bfloat162float(value);
}

inline __device__ void round_to(float value, float& to) {
  to = value;
}
inline __device__ void round_to(float value, Bfloat16& to) {
  to = __float2bfloat16_rn(value);
}

template <int kWidth, typename T>
__device__ void load(const T* from, float (&to)[kWidth]) {
  const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(from);
  for (int i = 0; i < kWidth; ++i) to[i] = widened(pack.items[i]);
}

/// Rounds `values` to the stored type.
template <int kWidth, typename T>
__device__ void store(float (&values)[kWidth], T* to) {
  Pack<T, kWidth> pack;
  for (int i = 0; i < kWidth; ++i) {
    round_to(values[i], pack.items[i]);
    values[i] = widened(pack.items[i]);
  }
  *reinterpret_cast<Pack<T, kWidth>*>(to) = pack;
}

/// Adds values(0) to values(count - 1) to `sums`, in this order. Loads several before it adds them:
/// the next load would otherwise wait for the sum of the last one.
template <int kWidth, typename Values>
__device__ void add_in_order(std::size_t count, const Values& values, float (&sums)[kWidth]) {
  constexpr std::size_t kLoads = 8;
  std::size_t first = 0;
  for (; first + kLoads <= count; first += kLoads) {
    float loaded[kLoads][kWidth];
    for (std::size_t i = 0; i < kLoads; ++i) values(first + i, loaded[i]);
    for (std::size_t i = 0; i < kLoads; ++i) {
      for (int k = 0; k < kWidth; ++k) sums[k] += loaded[i][k];
    }
  }
  for (; first < count; ++first) {
    float loaded[kWidth];
    values(first, loaded);
    for (int k = 0; k < kWidth; ++k) sums[k] += loaded[k];
  }
}

struct Add {
  template <typename T>
  __device__ T operator()(T left, T right) const {
    return left + right;
  }
};

struct Larger {
  __device__ float operator()(float left, float right) const { return left > right ? left : right; }
};

/// Combines the values of `kGroup` neighbouring lanes; all get the result. To be called by all
/// lanes of the warp.
template <int kGroup = kLanes, typename T, typename Combine>
__device__ T combine_lanes(T value, const Combine& combine) {
  for (int distance = kGroup / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

/// Combines the values of all threads of a block of whole warps; all get the result.
template <typename T, typename Combine>
__device__ T combine_block(T value, T neutral, const Combine& combine) {
  __shared__ T parts[kLanes];
  const unsigned lane = threadIdx.x % kLanes;
  value = combine_lanes(value, combine);
  if (lane == 0) parts[threadIdx.x / kLanes] = value;
  __syncthreads();
  value = combine_lanes(lane < blockDim.x / kLanes ? parts[lane] : neutral, combine);
  __syncthreads();  // the next call overwrites the parts
  return value;
}

/// Calls each.at<kWidth>(first) for every kWidth-th element.
template <int kWidth, typename Each>
__global__ void __launch_bounds__(kThreads) each_kernel(std::size_t elements, const Each each) {
  const std::size_t first = (std::size_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth;
  if (first < elements) each.template at<kWidth>(first);
}

}  // namespace trainer::cuda
