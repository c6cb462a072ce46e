#include "tests/support/emulated_kernels.hpp"

#include "tests/support/cuda_emulation.hpp"
#include "tests/support/fake_cuda.hpp"
#include "worker_runtime/cuda/kernels/convert_launches.hpp"
#include "worker_runtime/cuda/kernels/exam.cuh"

#include <algorithm>

namespace ddprun::test {

namespace {

auto run_on(cudaStream_t stream) {
  return [stream](auto* kernel, const auto& batch, const auto& each) {
    launch_on(stream, [=] {
      run_kernel({.grid = {batch.tiles, 1, 1}, .block = {cuda::kConvertThreads, 1, 1}}, kernel,
                 batch, each);
    });
    return cudaSuccess;
  };
}

cudaError_t convert(std::span<const cuda::Piece> pieces, DataType from, DataType to, double scale,
                    cudaStream_t stream) {
  return cuda::convert_pieces(pieces, from, to, scale, run_on(stream));
}

cudaError_t add(std::span<const cuda::Piece> pieces, DataType from, cudaStream_t stream) {
  return cuda::add_pieces(pieces, from, run_on(stream));
}

cudaError_t divide(void* values, std::size_t elements, DataType type, double divisor,
                   cudaStream_t stream) {
  return cuda::divide_values(values, elements, type, divisor, run_on(stream));
}

/// Fewer blocks than on a device: they run one after another, and kernels do not depend on their
/// number.
constexpr KernelShape kExamShape{.grid = {3, 1, 1}, .block = {cuda::kExamThreads, 1, 1}};

cudaError_t fill(std::uint64_t* words, std::size_t count, std::uint64_t round,
                 cudaStream_t stream) {
  launch_on(stream, [=] { run_kernel(kExamShape, cuda::fill_pattern, words, count, round); });
  return cudaSuccess;
}

cudaError_t check(const std::uint64_t* words, std::size_t count, std::uint64_t round,
                  cuda::PatternFault* faults, cudaStream_t stream) {
  launch_on(stream, [=] {
    std::fill_n(faults, cuda::kExamFaults, cuda::PatternFault{});
    run_kernel(kExamShape, cuda::check_pattern, words, count, round, faults);
  });
  return cudaSuccess;
}

cudaError_t multiply(const float* left, const float* right, float* product, unsigned n,
                     cudaStream_t stream) {
  const unsigned tiles = (n + cuda::kExamTile - 1) / cuda::kExamTile;
  launch_on(stream, [=] {
    run_kernel({.grid = {tiles, tiles, 1}, .block = {cuda::kExamThreads, 1, 1}},
               cuda::multiply_tiles, left, right, product, n);
  });
  return cudaSuccess;
}

}  // namespace

const cuda::ExamKernels& emulated_exam() {
  static constexpr cuda::ExamKernels kKernels{.fill = fill, .check = check, .multiply = multiply};
  return kKernels;
}

const cuda::KernelCalls& emulated_kernels() {
  static constexpr cuda::KernelCalls kCalls{.convert = convert, .add = add, .divide = divide};
  return kCalls;
}

}  // namespace ddprun::test
