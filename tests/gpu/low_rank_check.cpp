// PowerSGD's kernels on a real GPU: whether they compute what the processor does, and how fast the
// large ones are beside the memory that they move; for tests/gpu/run. Prints a line for each; ends
// with 1 if a result is too far from the processor's, or another one when run again.
//   low_rank_check          both
//   low_rank_check check    results alone, of small matrices: for tools that make kernels slow
#include "worker_runtime/cuda/low_rank_kernels.hpp"
#include "worker_runtime/ddp/hooks/low_rank.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace ddprun;

namespace {

// Sums of some hundred or thousand products of numbers below 1, in another order.
constexpr double kTolerance = 1e-4;

struct Step {
  const char* name;
  LowRankStep step;
  double passes;  ///< over the memory of M
};

const std::vector<Step> kSteps = {
    {"fill", LowRankStep::fill_right, 0},
    {"orthonormalise Q", LowRankStep::orthonormalise_right, 0},
    {"P = M Q", LowRankStep::project_columns, 1},
    {"orthonormalise P", LowRankStep::orthonormalise_left, 0},
    {"Q = M' P", LowRankStep::project_rows, 1},
    {"expand", LowRankStep::expand, 3},
};

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// A matrix and all that belongs to it, in one piece on the host and in one on the device.
class Both {
 public:
  Both(std::size_t rows, std::size_t columns, std::uint32_t rank) : rank_(rank) {
    here_ = {.rows = rows, .columns = columns};
    const std::size_t partial = low_rank_partial_elements(here_, rank);
    values_.resize(2 * rows * columns + rank * (rows + columns) + partial);
    std::mt19937 random(7);
    for (float& value : values_) value = static_cast<float>(random() % 2001) / 1000 - 1;
    void* memory = nullptr;
    check(cudaMalloc(&memory, values_.size() * sizeof(float)), "cudaMalloc");
    on_device_ = {static_cast<float*>(memory), cudaFree};
    there_ = here_;
    share_out(here_, values_.data());
    share_out(there_, on_device_.get());
    check(cudaMemcpy(on_device_.get(), values_.data(), values_.size() * sizeof(float),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

  LowRankOrder order(LowRankStep step) const { return {.step = step, .rank = rank_, .seed = 5}; }

  void run(LowRankStep step) {
    check(cuda::low_rank_kernels().run(order(step), {&there_, 1}, nullptr), "low_rank");
  }

  void run_on_host(LowRankStep step) { compute_low_rank(order(step), {&here_, 1}); }

  /// But for the partial sums.
  std::vector<float> device_values() const {
    std::vector<float> values(static_cast<std::size_t>(here_.partial - values_.data()));
    check(cudaMemcpy(values.data(), on_device_.get(), values.size() * sizeof(float),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }

  double difference() const {
    const auto values = device_values();
    double largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double apart =
          std::abs(static_cast<double>(values[i]) - static_cast<double>(values_[i]));
      largest = std::isfinite(apart) ? std::max(largest, apart) : INFINITY;
    }
    return largest;
  }

 private:
  void share_out(LowRankMatrix& matrix, float* memory) const {
    const std::size_t elements = matrix.rows * matrix.columns;
    matrix.matrix = memory;
    matrix.errors = matrix.matrix + elements;
    matrix.left = matrix.errors + elements;
    matrix.right = matrix.left + rank_ * matrix.rows;
    matrix.partial = matrix.right + rank_ * matrix.columns;
  }

  std::uint32_t rank_;
  std::vector<float> values_;
  std::shared_ptr<float> on_device_;
  LowRankMatrix here_;
  LowRankMatrix there_;
};

bool is_right(std::size_t rows, std::size_t columns, std::uint32_t rank) {
  Both both(rows, columns, rank);
  Both again(rows, columns, rank);
  for (const Step& now : kSteps) {
    both.run(now.step);
    both.run_on_host(now.step);
    again.run(now.step);
  }
  const double apart = both.difference();
  const bool is_same = both.device_values() == again.device_values();
  std::printf("%zu x %zu, rank %u: %.2g from the CPU's%s\n", rows, columns, rank, apart,
              is_same ? "" : ", other bits when run again");
  return apart < kTolerance && is_same;
}

void time_steps(std::size_t rows, std::size_t columns, std::uint32_t rank) {
  constexpr int kRounds = 20;
  Both both(rows, columns, rank);
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  for (const Step& now : kSteps) {
    both.run(now.step);
    check(cudaEventRecord(begin), "cudaEventRecord");
    for (int round = 0; round < kRounds; ++round) both.run(now.step);
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    const double seconds = static_cast<double>(milliseconds) / 1000 / kRounds;
    std::printf("%zu x %zu, rank %u, %s: %.1f us", rows, columns, rank, now.name, seconds * 1e6);
    const double bytes = now.passes * static_cast<double>(rows * columns * sizeof(float));
    if (bytes > 0) std::printf(", %.0f GB/s", bytes / seconds / 1e9);
    std::printf("\n");
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
}

}  // namespace

int main(int count, char** arguments) {
  try {
    bool is_good = true;
    for (const std::uint32_t rank : {1U, 4U, 6U}) {
      is_good = is_right(37, 300, rank) && is_good;
      is_good = is_right(300, 33, rank) && is_good;
      is_good = is_right(130, 260, rank) && is_good;
    }
    if (count == 2 && std::string(arguments[1]) == "check") return is_good ? 0 : 1;
    for (const std::uint32_t rank : {1U, 4U}) {
      time_steps(4096, 4096, rank);
      time_steps(50'257, 768, rank);
    }
    return is_good ? 0 : 1;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "low_rank_check: %s\n", exception.what());
    return 1;
  }
}
