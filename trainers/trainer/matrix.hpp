// A row-major matrix of float32. One row is one sample.
#pragma once

#include <cstddef>
#include <vector>

namespace trainer {

struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  /// The content is unspecified afterwards. Memory is kept, so that a smaller last batch costs no
  /// allocation.
  void reshape(std::size_t new_rows, std::size_t new_columns) {
    rows = new_rows;
    columns = new_columns;
    values.resize(rows * columns);
  }

  float* row(std::size_t index) { return values.data() + index * columns; }
  const float* row(std::size_t index) const { return values.data() + index * columns; }
};

}  // namespace trainer
