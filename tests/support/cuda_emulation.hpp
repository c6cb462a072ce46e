// Runs CUDA kernels on the CPU, for machines without a GPU and for sanitizers. Included before a
// kernel's source instead of nvcc's headers; declares what kernels use on a device.
//
// The blocks of a grid run one after another, the threads of a block as fibers: a thread runs until
// it waits for others. A wait that cannot end (some threads skip a barrier or shuffle, or are in
// one at another place) is an error that lists the waiting threads. Threads can also run in the
// opposite order, which changes the result if a barrier is missing. One kernel runs at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>

// Since one kernel runs at a time, the memory of a block is static.
#undef __shared__
#define __shared__ static
#define __launch_bounds__(...)

// Position of the calling thread.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

namespace ddprun::test {

/// A kernel did something that would hang or fail on a device.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct KernelShape {
  dim3 grid = {1, 1, 1};
  dim3 block = {1, 1, 1};
  bool backwards = false;  ///< last thread and last block first
};

/// Position of a call in the source; clang 14 has no std::source_location.
struct SourceLocation {
  const char* file = "";
  unsigned line = 0;

  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Threads of a warp that take part in an operation, as bits of a mask, and the operation.
struct WarpCall {
  unsigned mask = 0;
  const char* name = "";
  SourceLocation where;
};

using LaneValues = std::array<std::uint64_t, 32>;

/// Waits for all threads of the mask, and returns their values.
LaneValues gather_lanes(const WarpCall& call, std::uint64_t value);

/// Lane of the calling thread in its warp.
int own_lane();

void wait_for_block(SourceLocation where);

/// Runs `thread` once for each thread of the grid. Throws KernelError, also for shapes that no
/// device would launch, and exceptions of `thread`.
void run_grid(const KernelShape& shape, const std::function<void()>& thread);

/// Frees the fibers kept for the next kernel. ThreadSanitizer counts them as threads, and ends a
/// process that starts threads after it was forked from a process with several.
void free_fibers();

/// Like kernel<<<shape>>>(arguments...); waits for its end.
template <typename... Parameters, typename... Arguments>
void run_kernel(const KernelShape& shape, void (*kernel)(Parameters...),
                const Arguments&... arguments) {
  constexpr std::size_t kMost = CUDART_VERSION >= 12010 ? 32764 : 4096;
  const std::tuple<Parameters...> values(arguments...);
  static_assert(sizeof values <= kMost, "too many parameters of a kernel");
  run_grid(shape, [&] { std::apply(kernel, values); });
}

}  // namespace ddprun::test

inline void __syncthreads(
    ddprun::test::SourceLocation where = ddprun::test::SourceLocation::current()) {
  ddprun::test::wait_for_block(where);
}

inline void __syncwarp(unsigned mask = ~0U, ddprun::test::SourceLocation where =
                                                ddprun::test::SourceLocation::current()) {
  ddprun::test::gather_lanes({mask, "__syncwarp", where}, 0);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits,
                  ddprun::test::SourceLocation where = ddprun::test::SourceLocation::current()) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t given = 0;
  std::memcpy(&given, &value, sizeof value);
  const int lane = ddprun::test::own_lane() ^ bits;
  const auto values = ddprun::test::gather_lanes({mask, "__shfl_xor_sync", where}, given);
  if ((mask >> lane & 1U) == 0) {
    throw ddprun::test::KernelError("__shfl_xor_sync: lane " + std::to_string(lane) +
                                    ", which is read, is not in the mask");
  }
  std::memcpy(&value, &values[static_cast<std::size_t>(lane)], sizeof value);
  return value;
}

inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    ddprun::test::SourceLocation where = ddprun::test::SourceLocation::current()) {
  const auto given =
      ddprun::test::gather_lanes({mask, "__ballot_sync", where}, predicate != 0 ? 1 : 0);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < given.size(); ++lane) {
    if ((mask >> lane & 1U) != 0 && given[lane] != 0) votes |= 1U << lane;
  }
  return votes;
}

inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
