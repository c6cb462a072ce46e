// A batch where a model can compute with it.
#pragma once

#include "trainers/trainer/dataset.hpp"
#include "trainers/trainer/matrix.hpp"
#include "trainers/trainer/parameter.hpp"

namespace trainer {

/// Copies of a batch on a device; on the CPU the batch itself, which is not copied.
class DeviceBatch {
 public:
  explicit DeviceBatch(const Places& places) : places_(places) {}

  /// `batch` must stay as it is for as long as this is used.
  void load(Batch& batch);

  Matrix inputs;   ///< [rows, features], of the place's type; or tokens, where embeddings are
  Buffer labels;   ///< [rows] int32, if the data set has labels
  Buffer targets;  ///< [rows, outputs] float32

 private:
  Places places_;
  Array exact_inputs_;
  Array token_memory_;
  Array label_memory_;
  Array target_memory_;
};

}  // namespace trainer
