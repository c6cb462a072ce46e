// Speed of the project's kernels on a real GPU, compared with cudaMemcpyAsync from device to
// device, and correctness of their results; for tests/gpu/run. Prints a line for each kernel and
// size, and exits with 1 if one is wrong or slower than kFractionMin of the copy.
//   kernel_bench          both
//   kernel_bench check    only results, of small sizes: for tools that make kernels slow
#include "worker_runtime/collectives/half.hpp"
#include "worker_runtime/cuda/kernel_calls.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace ddprun;

namespace {

struct Ours {};
using Halves = collectives::Half<Ours>;

constexpr double kFractionMin = 0.85;  // a slower kernel is not limited by memory alone
constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr double kScale = 0.25;  // results stay exact

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return {static_cast<std::byte*>(memory), cudaFree};
}

/// Median duration of `work` on the stream of an otherwise idle device.
double median_seconds(const std::function<void()>& work) {
  constexpr int kRounds = 21;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> milliseconds(kRounds);
  for (int i = -3; i < kRounds; ++i) {  // three to warm up
    check(cudaEventRecord(begin), "cudaEventRecord");
    work();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    if (i >= 0) check(cudaEventElapsedTime(&milliseconds[i], begin, end), "cudaEventElapsedTime");
  }
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRounds / 2, milliseconds.end());
  return static_cast<double>(milliseconds[kRounds / 2]) / 1000;
}

struct Case {
  std::string name;
  DataType from = DataType::float32;
  DataType to = DataType::float32;
  double scale = 1;
  std::size_t pieces = 1;  ///< of unequal sizes
};

const std::vector<Case> kCases = {
    {"copy of one piece"},
    {"flatten 500 pieces", DataType::float32, DataType::float32, 1, 500},
    {"flatten 500 pieces of bfloat16", DataType::bfloat16, DataType::bfloat16, 1, 500},
    {"scale", DataType::float32, DataType::float32, kScale},
    {"scale bfloat16", DataType::bfloat16, DataType::bfloat16, kScale},
    {"scale float16", DataType::float16, DataType::float16, kScale},
    {"cast float32 to bfloat16", DataType::float32, DataType::bfloat16},
    {"cast bfloat16 to float32", DataType::bfloat16, DataType::float32},
    {"flatten and cast 500 pieces", DataType::float32, DataType::bfloat16, kScale, 500},
};

/// Values whose conversion is exact or rounded: element i is this, rounded to its type.
float value_of(std::size_t i) {
  return (static_cast<float>(i % 8191) - 4096.0F) / 64.0F;
}

float rounded(float value, DataType type) {
  if (type == DataType::bfloat16) return Halves::from_bfloat16(Halves::to_bfloat16(value));
  if (type == DataType::float16) return Halves::from_float16(Halves::to_float16(value));
  return value;
}

std::vector<std::byte> encoded(std::size_t elements, DataType type, double scale, DataType before) {
  std::vector<std::byte> bytes(elements * size_of(type));
  for (std::size_t i = 0; i < elements; ++i) {
    const float value = rounded(value_of(i), before) * static_cast<float>(scale);
    if (type == DataType::float32) {
      reinterpret_cast<std::uint32_t*>(bytes.data())[i] = std::bit_cast<std::uint32_t>(value);
    } else {
      reinterpret_cast<std::uint16_t*>(bytes.data())[i] =
          type == DataType::bfloat16 ? Halves::to_bfloat16(value) : Halves::to_float16(value);
    }
  }
  return bytes;
}

/// Every second piece is three times as long as the others, minus an odd number of elements so that
/// not all are aligned.
std::vector<cuda::Piece> cut(const Case& now, std::size_t elements, const std::byte* from,
                             std::byte* to) {
  std::vector<cuda::Piece> pieces;
  const std::size_t share = elements / (2 * now.pieces);
  for (std::size_t i = 0, first = 0; i < now.pieces; ++i) {
    const std::size_t length = i + 1 == now.pieces ? elements - first
                               : i % 2 == 0        ? share
                                                   : 3 * share - 1;
    pieces.push_back({from + first * size_of(now.from), to + first * size_of(now.to), length});
    first += length;
  }
  return pieces;
}

/// Memory of a case, and its pieces.
struct Arena {
  std::shared_ptr<std::byte> from;
  std::shared_ptr<std::byte> to;
  std::size_t result_bytes = 0;
  std::vector<cuda::Piece> pieces;
};

Arena arena_of(const Case& now, std::size_t bytes) {
  const std::size_t elements = bytes / size_of(now.from);
  Arena arena{.from = allocate(bytes), .result_bytes = elements * size_of(now.to)};
  arena.to = allocate(arena.result_bytes);
  const auto source = encoded(elements, now.from, 1, now.from);
  check(cudaMemcpy(arena.from.get(), source.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  arena.pieces = cut(now, elements, arena.from.get(), arena.to.get());
  return arena;
}

void run(const Case& now, const Arena& arena) {
  check(cuda::kernel_calls().convert(arena.pieces, now.from, now.to, now.scale, nullptr),
        "convert");
}

bool is_right(const Case& now, const Arena& arena) {
  const auto expected = encoded(arena.result_bytes / size_of(now.to), now.to, now.scale, now.from);
  std::vector<std::byte> result(arena.result_bytes);
  check(cudaMemcpy(result.data(), arena.to.get(), result.size(), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return result == expected;
}

bool measure(const Case& now, std::size_t bytes) {
  const Arena arena = arena_of(now, bytes);
  const double seconds = median_seconds([&] { run(now, arena); });
  const bool is_good = is_right(now, arena);
  const auto other = allocate(bytes);
  const double copy_seconds = median_seconds([&] {
    check(cudaMemcpyAsync(other.get(), arena.from.get(), bytes, cudaMemcpyDeviceToDevice, nullptr),
          "cudaMemcpyAsync");
  });
  const auto moved = static_cast<double>(bytes + arena.result_bytes);
  const double fraction = moved / seconds / (2 * static_cast<double>(bytes) / copy_seconds);
  std::printf("%s, %zu MiB: %.2f of a copy's bandwidth, %.0f GB/s%s\n", now.name.c_str(),
              bytes >> 20, fraction, moved / seconds / 1e9, is_good ? "" : ", WRONG");
  std::fflush(stdout);
  return is_good && fraction >= kFractionMin;
}

bool measure_all() {
  bool is_good = true;
  for (const std::size_t bytes : {64 * kMebibyte, 256 * kMebibyte}) {
    for (const Case& now : kCases) is_good = measure(now, bytes) && is_good;
  }
  return is_good;
}

bool check_all() {
  bool is_good = true;
  for (const Case& now : kCases) {
    const Arena arena = arena_of(now, kMebibyte);
    run(now, arena);
    const bool is_now = is_right(now, arena);
    std::printf("%s: %s\n", now.name.c_str(), is_now ? "right" : "WRONG");
    is_good = is_good && is_now;
  }
  return is_good;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const bool is_check = count == 2 && std::string(arguments[1]) == "check";
    return (is_check ? check_all() : measure_all()) ? 0 : 1;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "kernel_bench: %s\n", exception.what());
    return 1;
  }
}
