#include "worker_runtime/preflight/cpu_exam.hpp"

#include "worker_runtime/cuda/exact_product.hpp"
#include <ddprun/error.hpp>

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddprun::preflight {

namespace {

// Number of measurements, of which the best counts: other processes use the machine as well.
constexpr int kRepetitions = 3;

/// Returns the thread's CPU time in seconds, which excludes waits for a core.
double own_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_since(double start) {
  return std::max(own_time() - start, 1e-9);
}

/// Two rounds set every bit to 0 and 1. All words differ, so that a misplaced word is detected.
std::uint64_t word_at(std::size_t index, std::uint64_t round) {
  const std::uint64_t word = index * 0x9E3779B97F4A7C15ULL;
  return round % 2 == 0 ? word : ~word;
}

void fill(std::span<volatile std::uint64_t> words, std::uint64_t round) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_at(i, round);
}

void check(std::span<volatile std::uint64_t> words, std::uint64_t round) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word_at(i, round)) continue;
    throw Error(Errc::system, "its memory does not keep what is written: the word at byte " +
                                  std::to_string(i * sizeof words[i]) + " of " +
                                  std::to_string(words.size_bytes()) + " has changed");
  }
}

double examine_memory(std::size_t bytes) {
  const std::size_t count = bytes / sizeof(std::uint64_t);
  const auto memory = std::make_unique_for_overwrite<volatile std::uint64_t[]>(count);
  const std::span words(memory.get(), count);
  double best = 0;
  for (std::uint64_t round = 0; round < kRepetitions + 1; ++round) {
    const double start = own_time();
    fill(words, round);
    check(words, round);
    // The first round includes page faults.
    if (round > 0) best = std::max(best, 2.0 * static_cast<double>(bytes) / seconds_since(start));
  }
  return best;
}

/// Multiplies by rows, so that the compiler can vectorise the loop.
void multiply(const cuda::Factors& factors, std::vector<float>& product) {
  const std::size_t n = factors.n;
  std::fill(product.begin(), product.end(), 0.0F);
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t k = 0; k < n; ++k) {
      const float factor = factors.left[row * n + k];
      for (std::size_t column = 0; column < n; ++column)
        product[row * n + column] += factor * factors.right[k * n + column];
    }
  }
}

double examine_product(std::size_t n) {
  const cuda::Factors factors = cuda::make_factors(n);
  std::vector<float> product(n * n);
  const double operations =
      2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  double best = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const double start = own_time();
    multiply(factors, product);
    best = std::max(best, operations / seconds_since(start));
    if (const auto row = cuda::wrong_row(factors, product)) {
      throw Error(Errc::system, "a matrix product of size " + std::to_string(n) +
                                    " is wrong in row " + std::to_string(*row));
    }
  }
  return best;
}

}  // namespace

Exam examine_cpu(const CpuExamSizes& sizes, Progress& progress) {
  Exam exam{.name = "CPU"};
  progress.note(exam.name, ": writing to its memory and reading it");
  exam.memory_bytes_per_second = examine_memory(sizes.memory_bytes);
  progress.note(exam.name, ": multiplying matrices");
  exam.product_flops = examine_product(sizes.product_size);
  return exam;
}

}  // namespace ddprun::preflight
