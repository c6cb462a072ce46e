// The arithmetic of PowerSGD on the processor: a matrix as the product of two narrow ones, by one
// step of the power iteration. Pure; all results depend on the arguments alone, bit for bit.
#pragma once

#include "worker_runtime/backends/low_rank_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun {

/// A matrix in rows, [rows, columns] float32, in memory of somebody else.
struct MatrixView {
  float* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;

  std::span<float> row(std::size_t index) const { return {data + index * columns, columns}; }
};

/// Of a bucket's first matrices, in the order of its gradients. Far apart for neighbours.
constexpr std::uint64_t first_matrices_seed(std::uint64_t seed, std::size_t bucket,
                                            std::uint64_t step) {
  return seed + 0x9e37'79b9'7f4a'7c15 * (1 + bucket) + 0xd1b5'4a32'd192'ed03 * step;
}

/// Fills with numbers of a normal distribution, each a function of `seed` and its place.
void fill_random(MatrixView matrix, std::uint64_t seed);

/// Makes the rows orthonormal, the first one first. A row that is a combination of those before it,
/// but for rounding, becomes zero.
void orthonormalise_rows(MatrixView matrix);

/// left[k, i] = sum over j of matrix[i, j] * right[k, j]. `left` is [rank, rows], `right` is
/// [rank, columns] for a matrix of [rows, columns].
void project_columns(MatrixView matrix, MatrixView right, MatrixView left);

/// right[k, j] = sum over i of matrix[i, j] * left[k, i].
void project_rows(MatrixView matrix, MatrixView left, MatrixView right);

/// The step for each of the matrices.
void compute_low_rank(const LowRankOrder& order, std::span<const LowRankMatrix> matrices);

/// Row i of what left and right stand for: result[j] = sum over k of left[k, i] * right[k, j].
void expand_row(MatrixView left, MatrixView right, std::size_t row, std::span<float> result);

}  // namespace ddprun
