// The steps of PowerSGD's arithmetic, for many matrices at once. Plain data, since it goes to
// modules and to kernels.
//
// A matrix M [rows, columns] is about the product of P [rank, rows] and Q [rank, columns]: the sum
// over k of P[k, i] * Q[k, j].
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun {

/// In memory of somebody else, all float32 and by rows.
struct LowRankMatrix {
  float* matrix = nullptr;  ///< M
  float* errors = nullptr;  ///< as M, or null: what P and Q miss of it is not kept
  float* left = nullptr;    ///< P
  float* right = nullptr;   ///< Q
  /// On a device: low_rank_partial_elements(); else null.
  float* partial = nullptr;
  std::size_t rows = 0;     ///< at least 1
  std::size_t columns = 0;  ///< at least 1
};

/// What of a matrix' rows a device sums at once.
inline constexpr std::size_t kLowRankChunk = 128;

/// That project_rows needs on a device: a Q for each chunk of rows.
constexpr std::size_t low_rank_partial_elements(const LowRankMatrix& matrix, std::size_t rank) {
  return (matrix.rows + kLowRankChunk - 1) / kLowRankChunk * rank * matrix.columns;
}

enum class LowRankStep : std::uint32_t {
  fill_right,            ///< Q = numbers of a normal distribution, a function of place and seed
  orthonormalise_right,  ///< makes the rows of Q orthonormal, the first one first; a row that is a
                         ///< combination of those before it, but for rounding, becomes zero
  orthonormalise_left,   ///< the same for P
  project_columns,       ///< P[k, i] = sum over j of M[i, j] * Q[k, j]
  project_rows,          ///< Q[k, j] = sum over i of M[i, j] * P[k, i]
  expand,                ///< errors = M - product of P and Q; M = factor * that product
};

struct LowRankOrder {
  LowRankStep step = LowRankStep::fill_right;
  std::uint32_t rank = 1;
  std::uint64_t seed = 0;  ///< of fill_right
  float factor = 1;        ///< of expand
};

}  // namespace ddprun
