// A batch where a model can compute with it.
#pragma once

#include "trainers/trainer/dataset.hpp"
#include "trainers/trainer/matrix.hpp"
#include "trainers/trainer/parameter.hpp"

namespace trainer {

/// Copies of a batch on a device; on the CPU the batch itself, which is not copied.
class DeviceBatch {
 public:
  explicit DeviceBatch(const Place& place) : place_(place) {}

  /// `batch` must stay as it is for as long as this is used.
  void load(Batch& batch);

  Matrix inputs;   ///< [rows, features], of the place's type
  Buffer labels;   ///< [rows] int32, if the data set has labels
  Buffer targets;  ///< [rows, outputs] float32

 private:
  Place place_;
  Array exact_inputs_;
  Array label_memory_;
  Array target_memory_;
};

}  // namespace trainer
