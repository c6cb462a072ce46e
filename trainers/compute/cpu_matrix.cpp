#include "trainers/compute/cpu_blas.hpp"
#include "trainers/compute/cpu_kernels.hpp"

#include <algorithm>

namespace trainer::cpu {

template <typename Real>
void compute(const MatrixProduct& o) {
  if (o.rows == 0 || o.columns == 0) return;
  Real* result = values_of<Real>(o.result);
  const bool has_bias = o.bias.data != nullptr;
  if (has_bias) {
    const Real* bias = values_of<Real>(o.bias);
    for (std::size_t row = 0; row < o.rows; ++row) {
      std::copy_n(bias, o.columns, result + row * o.columns);
    }
  }
  const Real keep = o.adds || has_bias ? 1 : 0;
  multiply(o.rows, o.columns, o.inner, Real{1},
           {values_of<Real>(o.left), o.left_is_transposed ? o.rows : o.inner, o.left_is_transposed},
           {values_of<Real>(o.right), o.right_is_transposed ? o.inner : o.columns,
            o.right_is_transposed},
           keep, result, o.columns);
}

template <typename Real>
void compute(const SumOfRows& o) {
  const Real* values = values_of<Real>(o.values);
  Real* result = values_of<Real>(o.result);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const Real* from = values + row * o.columns;
    for (std::size_t i = 0; i < o.columns; ++i) result[i] += from[i];
  }
}

template void compute<float>(const MatrixProduct&);
template void compute<double>(const MatrixProduct&);
template void compute<float>(const SumOfRows&);
template void compute<double>(const SumOfRows&);

}  // namespace trainer::cpu
