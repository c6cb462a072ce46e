// Mean squared error of a regression: one warp per row.
#pragma once

#include "trainers/gpt2/cuda/kernels/layer_norm.cuh"

namespace trainer::cuda {

template <typename T>
struct SquaredErrorArrays {
  T* output;
  const float* targets;
  float* losses;
  std::size_t rows;
  std::size_t columns;
  float gradient_scale;
};

template <int kWidth, typename T>
__global__ void __launch_bounds__(kThreads) squared_error_kernel(const SquaredErrorArrays<T> a) {
  const std::size_t row = own_row();
  if (row >= a.rows) return;
  const std::size_t begin = row * a.columns;
  const auto columns = static_cast<float>(a.columns);
  const float factor = 2 * (1 / columns) * a.gradient_scale;
  float squares = 0;
  for (auto at = first_of_lane<kWidth>(); at < a.columns; at += kLanes * kWidth) {
    float error[kWidth];
    float target[kWidth];
    load(a.output + begin + at, error);
    load(a.targets + begin + at, target);
    for (int i = 0; i < kWidth; ++i) {
      error[i] -= target[i];
      squares += error[i] * error[i];
      error[i] *= factor;
    }
    store(error, a.output + begin + at);
  }
  squares = combine_lanes(squares, Add{});
  if (threadIdx.x % kLanes == 0) a.losses[row] = squares / columns;
}

}  // namespace trainer::cuda
