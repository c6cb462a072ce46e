// What LowRankKernels::run() comes to: which kernels, and how the matrices are spread over launches
// of them. How a kernel is launched is the caller's; include what kernels use before this.
#pragma once

#include "worker_runtime/cuda/kernels/low_rank.cuh"

#include <span>

namespace ddprun::cuda {

/// How a kernel's work on a matrix is cut.
struct LowRankShape {
  std::size_t (*blocks)(const LowRankMatrix& m, std::size_t rank);
  unsigned threads = kLowRankThreads;
};

inline std::size_t low_rank_parts(std::size_t whole, std::size_t part) {
  return (whole + part - 1) / part;
}

inline std::size_t blocks_of_right(const LowRankMatrix& m, std::size_t rank) {
  return low_rank_parts(rank * m.columns, kLowRankThreads);
}
inline std::size_t blocks_of_rows(const LowRankMatrix& m, std::size_t /*rank*/) {
  return low_rank_parts(m.rows, kRowsOfBlock);
}
inline std::size_t blocks_of_chunks(const LowRankMatrix& m, std::size_t /*rank*/) {
  return low_rank_parts(m.rows, kLowRankChunk) * low_rank_parts(m.columns, kLowRankThreads);
}
inline std::size_t blocks_of_tiles(const LowRankMatrix& m, std::size_t /*rank*/) {
  return low_rank_parts(m.rows, kRowsExpanded) * low_rank_parts(m.columns, kLowRankThreads);
}
inline std::size_t one_block(const LowRankMatrix& /*m*/, std::size_t /*rank*/) {
  return 1;
}

template <typename Kernel, typename Launch>
cudaError_t launch_low_rank(const LowRankOrder& order, std::span<const LowRankMatrix> matrices,
                            Kernel* kernel, const LowRankShape& shape, const Launch& launch) {
  for (std::size_t first = 0; first < matrices.size(); first += kMatricesPerLaunch) {
    LowRankBatch batch{};
    batch.order = order;
    for (std::size_t i = first; i < matrices.size() && batch.count < kMatricesPerLaunch; ++i) {
      batch.pieces[batch.count++] = {matrices[i], batch.blocks};
      batch.blocks += static_cast<unsigned>(shape.blocks(matrices[i], order.rank));
    }
    const cudaError_t error = launch(kernel, batch, shape.threads);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

/// As LowRankKernels::run(); `launch(kernel, batch, threads)` has batch.blocks blocks of so many
/// threads run the kernel.
template <typename Launch>
cudaError_t run_low_rank(const LowRankOrder& order, std::span<const LowRankMatrix> matrices,
                         const Launch& launch) {
  const auto run = [&](auto* kernel, const LowRankShape& shape) {
    return launch_low_rank(order, matrices, kernel, shape, launch);
  };
  switch (order.step) {
    case LowRankStep::fill_right:
      return run(fill_right_kernel, {blocks_of_right});
    case LowRankStep::orthonormalise_right:
    case LowRankStep::orthonormalise_left:
      return run(orthonormalise_kernel, {one_block, kOrthonormaliseThreads});
    case LowRankStep::project_columns:
      return run(project_columns_kernel, {blocks_of_rows});
    case LowRankStep::project_rows: {
      const cudaError_t error = run(project_chunks_kernel, {blocks_of_chunks});
      return error != cudaSuccess ? error : run(sum_chunks_kernel, {blocks_of_right});
    }
    case LowRankStep::expand:
      return run(expand_kernel, {blocks_of_tiles});
  }
  return cudaErrorInvalidValue;
}

}  // namespace ddprun::cuda
