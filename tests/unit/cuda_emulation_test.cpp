#include "tests/support/cuda_emulation.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace cuda_emulation_test {

using namespace ddprun::test;

namespace {

__global__ void number_threads(int* numbers) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  numbers[block * blockDim.x * blockDim.y + thread] += static_cast<int>(1000 * block + thread);
}

/// Each block turns its part round, through shared memory.
__global__ void turn_round(int* values) {
  __shared__ int block[64];
  int* own = values + blockIdx.x * blockDim.x;
  block[threadIdx.x] = own[threadIdx.x];
  __syncthreads();
  own[threadIdx.x] = block[blockDim.x - 1 - threadIdx.x];
}

__global__ void sum_of_block(const float* values, float* sums) {
  auto* partial = static_cast<float*>(dynamic_shared_memory());
  float sum = values[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned distance = 16; distance > 0; distance /= 2)
    sum += __shfl_down_sync(~0U, sum, distance);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
  for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(~0U, sum, bits);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void vote(unsigned* votes, double* last) {
  const unsigned mask = threadIdx.x < 16 ? 0xffffU : 0xffff0000U;
  votes[threadIdx.x] = __ballot_sync(mask, threadIdx.x % 3 == 0);
  last[threadIdx.x] = __shfl_sync(mask, 0.5 * threadIdx.x, 15, 16);
  __syncwarp();
  atomicAdd(&votes[32], 1U);
  votes[threadIdx.x] += __shfl_up_sync(~0U, threadIdx.x, 1);
}

/// Each thread reads its neighbour's value, which nothing makes wait for.
__global__ void misses_a_barrier(int* values) {
  __shared__ int shared[64];
  shared[threadIdx.x] = -1;
  __syncthreads();
  shared[threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = shared[threadIdx.x ^ 1U];
}

__global__ void some_leave_before_the_barrier() {
  if (threadIdx.x == 3) return;
  __syncthreads();
}

__global__ void some_at_another_barrier() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void half_a_warp_shuffles(int* values) {
  if (threadIdx.x < 16) values[threadIdx.x] = __shfl_xor_sync(~0U, values[threadIdx.x], 1);
}

__global__ void reads_from_a_stranger(int* values) {
  values[threadIdx.x] = __shfl_sync(0xfU, values[threadIdx.x], 9);
}

__global__ void is_not_in_its_mask() {
  __syncwarp(0x7U);
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const KernelError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("cuda emulation") {
  TEST_CASE("each thread of each block runs once and knows its place") {
    std::vector<int> numbers(2 * 3 * 4 * 5);
    run_kernel({.grid = {2, 3, 1}, .block = {5, 4, 1}}, number_threads, numbers.data());
    for (int i = 0; i < static_cast<int>(numbers.size()); ++i)
      CHECK(numbers[static_cast<std::size_t>(i)] == i / 20 * 1000 + i % 20);
  }

  TEST_CASE("what threads have written before a barrier the others read after it") {
    std::vector<int> values(3 * 64);
    for (int i = 0; i < 192; ++i) values[static_cast<std::size_t>(i)] = i;
    run_kernel({.grid = {3, 1, 1}, .block = {64, 1, 1}}, turn_round, values.data());
    for (int i = 0; i < 192; ++i)
      CHECK(values[static_cast<std::size_t>(i)] == i / 64 * 64 + 63 - i % 64);
  }

  TEST_CASE("shuffles and dynamic shared memory add up a block") {
    std::vector<float> values(2 * 256);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    std::vector<float> sums(2);
    run_kernel({.grid = {2, 1, 1}, .block = {256, 1, 1}, .shared_bytes = 8 * sizeof(float)},
               sum_of_block, values.data(), sums.data());
    CHECK(sums[0] == 255.0F * 128);
    CHECK(sums[1] == 255.0F * 128 + 256 * 256);
  }

  TEST_CASE("parts of a warp vote and shuffle apart from each other") {
    std::vector<unsigned> votes(33);
    std::vector<double> last(32);
    run_kernel({.block = {32, 1, 1}}, vote, votes.data(), last.data());
    CHECK(votes[0] == 0x9249U);
    CHECK(votes[15] == 0x9249U + 14);
    CHECK(votes[16] == 0x49240000U + 15);
    CHECK(votes[32] == 32);
    CHECK(last[0] == 7.5);
    CHECK(last[31] == 15.5);
  }

  TEST_CASE("a barrier that is missing shows when threads run in the opposite order") {
    const auto run = [](auto* kernel, bool backwards) {
      std::vector<int> values(64);
      for (int i = 0; i < 64; ++i) values[static_cast<std::size_t>(i)] = i;
      run_kernel({.block = {64, 1, 1}, .backwards = backwards}, kernel, values.data());
      return values;
    };
    CHECK(run(turn_round, false) == run(turn_round, true));
    CHECK(run(misses_a_barrier, false) != run(misses_a_barrier, true));
  }

  TEST_CASE("a barrier that threads have gone round is an error and no hang") {
    const auto error = error_of([] {
      run_kernel({.block = {64, 1, 1}}, some_leave_before_the_barrier);
    });
    CHECK(has(error, "63 of 64 threads wait for ever"));
    CHECK(has(error, "__syncthreads at "));
    CHECK(has(error, "cuda_emulation_test.cpp:"));
    CHECK(has(error, "1 have ended"));
  }

  TEST_CASE("threads of a block at different barriers are an error") {
    const auto error = error_of([] { run_kernel({.block = {64, 1, 1}}, some_at_another_barrier); });
    CHECK(has(error, "thread (32, 0, 0) is in __syncthreads at "));
    CHECK(has(error, "and thread (0, 0, 0) in that at "));
  }

  TEST_CASE("a shuffle for which not all of its mask come is an error") {
    std::vector<int> values(32);
    CHECK(has(error_of([&] {
                run_kernel({.block = {32, 1, 1}}, half_a_warp_shuffles, values.data());
              }),
              "16 of 32 threads wait for ever, as thread (0, 0, 0) in __shfl_xor_sync"));
    CHECK(has(error_of([&] {
                run_kernel({.block = {4, 1, 1}}, reads_from_a_stranger, values.data());
              }),
              "reads from lane 9, which takes no part"));
    CHECK(has(error_of([&] {
                run_kernel({.block = {16, 1, 1}}, half_a_warp_shuffles, values.data());
              }),
              "lane 31, which the block does not have"));
    CHECK(has(error_of([] {
                run_kernel({.block = {4, 1, 1}}, is_not_in_its_mask);
              }),
              "by lane 3, which its mask does not name"));
  }

  TEST_CASE("what no device would launch is refused") {
    const auto refused = [](const KernelShape& shape) {
      return error_of([&] { run_kernel(shape, is_not_in_its_mask); });
    };
    CHECK(has(refused({.block = {1025, 1, 1}}), "a block of 1025 threads, must be 1 to 1024"));
    CHECK(has(refused({.block = {0, 1, 1}}), "a block of 0 threads"));
    CHECK(has(refused({.grid = {1, 65536, 1}}), "a grid of 65536 blocks that no device takes"));
    CHECK(has(refused({.shared_bytes = 49153}), "49153 bytes of shared memory, at most 49152"));
  }
}

}  // namespace cuda_emulation_test
