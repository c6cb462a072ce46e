// A row-major matrix in the memory of a device. One row is one sample.
#pragma once

#include "trainers/compute/compute.hpp"

#include <cstddef>

namespace trainer {

struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  Array memory = {};  ///< at least rows * columns elements

  /// Leaves unspecified content. Keeps the memory, so that a smaller last batch needs no
  /// allocation.
  void reshape(Compute& compute, ddprun::DataType type, std::size_t new_rows,
               std::size_t new_columns) {
    rows = new_rows;
    columns = new_columns;
    if (memory.buffer.elements >= elements() && memory.buffer.type == type) return;
    memory = compute.allocate(elements(), type);
  }

  std::size_t elements() const { return rows * columns; }
  Buffer buffer() const { return memory.buffer.slice(0, elements()); }
};

}  // namespace trainer
