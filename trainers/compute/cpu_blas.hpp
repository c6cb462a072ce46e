// Overloads of OpenBLAS for both types.
#pragma once

#include <cblas.h>

#include <cstddef>

namespace trainer::cpu {

/// A matrix within a larger one; rows are `stride` elements apart.
template <typename Real>
struct Factor {
  const Real* data;
  std::size_t stride;
  bool is_transposed = false;
};

inline CBLAS_TRANSPOSE transposition(bool is_transposed) {
  return is_transposed ? CblasTrans : CblasNoTrans;
}

/// Computes result [rows, columns] = scale * left * right + keep * result.
inline void multiply(std::size_t rows, std::size_t columns, std::size_t inner, float scale,
                     Factor<float> left, Factor<float> right, float keep, float* result,
                     std::size_t stride) {
  const auto size = [](std::size_t value) { return static_cast<blasint>(value); };
  ::cblas_sgemm(CblasRowMajor, transposition(left.is_transposed),
                transposition(right.is_transposed), size(rows), size(columns), size(inner), scale,
                left.data, size(left.stride), right.data, size(right.stride), keep, result,
                size(stride));
}

inline void multiply(std::size_t rows, std::size_t columns, std::size_t inner, double scale,
                     Factor<double> left, Factor<double> right, double keep, double* result,
                     std::size_t stride) {
  const auto size = [](std::size_t value) { return static_cast<blasint>(value); };
  ::cblas_dgemm(CblasRowMajor, transposition(left.is_transposed),
                transposition(right.is_transposed), size(rows), size(columns), size(inner), scale,
                left.data, size(left.stride), right.data, size(right.stride), keep, result,
                size(stride));
}

}  // namespace trainer::cpu
