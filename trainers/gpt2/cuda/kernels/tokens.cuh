// Gradient of the token table, and cross-entropy of logits.
#pragma once

#include "trainers/gpt2/cuda/kernels/device.cuh"

namespace trainer::cuda {

/// Channels per thread of token_gradient_kernel.
inline constexpr int kChannelsPerThread = 4;
inline constexpr std::size_t kChannelsPerBlock = std::size_t{kChannelsPerThread} * kThreads;

/// Writes the rows among [first, first + kThreads) with this token to `list`, in order, and returns
/// their number. To be called by the whole block; the list must be read before the next call passes
/// its barrier.
inline __device__ unsigned list_rows(const int* tokens, std::size_t first, std::size_t rows,
                                     int token, unsigned (&list)[kThreads]) {
  __shared__ unsigned counts[kThreads / kLanes];
  const std::size_t row = first + threadIdx.x;
  const bool has = row < rows && tokens[row] == token;
  const unsigned votes = __ballot_sync(kAllLanes, has);
  const unsigned warp = threadIdx.x / kLanes;
  if (threadIdx.x % kLanes == 0) counts[warp] = static_cast<unsigned>(__popc(votes));
  __syncthreads();
  unsigned before = 0;
  unsigned total = 0;
  for (unsigned i = 0; i < kThreads / kLanes; ++i) {
    before += i < warp ? counts[i] : 0;
    total += counts[i];
  }
  const unsigned lanes_below = (1U << threadIdx.x % kLanes) - 1;
  if (has) list[before + __popc(votes & lanes_below)] = static_cast<unsigned>(row);
  __syncthreads();
  return total;
}

/// One block per token position and part of the channels; `bag` tokens share a row of the output.
/// The block of a token's first position adds the rows of all its positions, in order; the others
/// return.
template <typename T, typename Gradient>
__global__ void __launch_bounds__(kThreads)
    token_gradient_kernel(std::size_t rows, std::size_t bag, std::size_t channels,
                          const int* tokens, const T* output_gradient, Gradient* token_gradient) {
  __shared__ unsigned list[kThreads];
  __shared__ bool is_later;
  const std::size_t own = blockIdx.x;
  const int token = tokens[own];
  if (threadIdx.x == 0) is_later = false;
  __syncthreads();
  for (std::size_t row = threadIdx.x; row < own; row += kThreads) {
    if (tokens[row] == token) is_later = true;
  }
  __syncthreads();
  if (is_later) return;

  float sums[kChannelsPerThread] = {};
  const std::size_t channel = blockIdx.y * kChannelsPerBlock + threadIdx.x;
  for (std::size_t first = own; first < rows; first += kThreads) {
    const unsigned count = list_rows(tokens, first, rows, token, list);
    const auto gradients = [&](std::size_t i, float(&to)[kChannelsPerThread]) {
      const T* gradient = output_gradient + list[i] / bag * channels;
      for (int k = 0; k < kChannelsPerThread; ++k) {
        const std::size_t at = channel + k * kThreads;
        to[k] = at < channels ? widened(gradient[at]) : 0.0F;
      }
    };
    add_in_order(count, gradients, sums);
  }
  Gradient* result = token_gradient + static_cast<std::size_t>(token) * channels;
  for (int k = 0; k < kChannelsPerThread; ++k) {
    const std::size_t at = channel + k * kThreads;
    if (at < channels) round_to(widened(result[at]) + sums[k], result[at]);
  }
}

template <typename T>
struct CrossEntropyArrays {
  T* logits;
  const int* targets;
  float* losses;
  std::size_t columns;
  std::size_t classes;
  float gradient_scale;
};

inline constexpr unsigned kCrossEntropyThreads = 512;  // a row of GPT-2 has 50304 logits

/// One block per row, which it reads twice: for the sum of exponentials, relative to the largest
/// logit so far, and to write the gradient.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kCrossEntropyThreads)
    cross_entropy_kernel(const CrossEntropyArrays<T> a) {
  T* logits = a.logits + blockIdx.x * a.columns;
  const auto target = static_cast<std::size_t>(a.targets[blockIdx.x]);
  const float of_target = widened(logits[target]);
  constexpr std::size_t kStride = kCrossEntropyThreads * kWidth;
  const std::size_t first = threadIdx.x * kWidth;
  float most = -INFINITY;
  float total = 0;
  for (std::size_t at = first; at < a.classes; at += kStride) {
    float x[kWidth];
    load(logits + at, x);
    for (int i = 0; i < kWidth; ++i) {
      if (at + i >= a.classes) break;
      if (x[i] > most) {
        total *= expf(most - x[i]);
        most = x[i];
      }
      total += expf(x[i] - most);
    }
  }
  const float largest = combine_block(most, -INFINITY, Larger{});
  total = combine_block(total * expf(most - largest), 0.0F, Add{});
  if (threadIdx.x == 0) a.losses[blockIdx.x] = logf(total) + (largest - of_target);
  if (a.gradient_scale == 0) return;

  const float factor = a.gradient_scale / total;
  for (std::size_t at = first; at < a.columns; at += kStride) {
    float x[kWidth];
    load(logits + at, x);
    for (int i = 0; i < kWidth; ++i) {
      x[i] = at + i < a.classes ? expf(x[i] - largest) * factor : 0.0F;
      if (at + i == target) x[i] -= a.gradient_scale;
    }
    store(x, logits + at);
  }
}

}  // namespace trainer::cuda
