// A batch in the memory of a model's device.
#pragma once

#include "trainers/trainer/dataset.hpp"
#include "trainers/trainer/matrix.hpp"
#include "trainers/trainer/parameter.hpp"

namespace trainer {

/// Copies of a batch on a device; on the CPU, views of the batch.
class DeviceBatch {
 public:
  explicit DeviceBatch(const Places& places) : places_(places) {}

  /// `batch` must not change while this object is used.
  void load(Batch& batch);

  Matrix inputs;   ///< [rows, features] in the place's type; with embeddings, tokens
  Buffer labels;   ///< [rows] int32 if the data set has labels
  Buffer targets;  ///< [rows, outputs] float32

 private:
  Places places_;
  Array exact_inputs_;
  Array token_memory_;
  Array label_memory_;
  Array target_memory_;
};

}  // namespace trainer
