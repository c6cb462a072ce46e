// AdamW for a model's parameters, with clipping by the gradients' norm.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/model.hpp"
#include "trainers/gpt2/options.hpp"

#include <cstdint>
#include <vector>

namespace trainer::gpt2 {

class Optimizer {
 public:
  /// State of a parameter. Statistics are float32; float64 for a model in float64.
  struct State {
    Array mean;    ///< mean of the gradient
    Array square;  ///< mean of the squared gradient
    Array master;  ///< float32 copy of bfloat16 values; otherwise the parameter's values
  };

  /// `compute` and `model` must outlive this object. Master weights are initialised from the
  /// model's values.
  Optimizer(Compute& compute, Model& model);

  /// Copies the values that depend on step `step`, counted from 1, to the device.
  void set_step(const Options& options, std::int64_t step);

  /// Updates the parameters by their gradients. Runs the same operations in each step.
  void update(const Options& options);

  /// Returns the norm of the last update's gradients before clipping. Waits for the device.
  double gradient_norm();

  std::vector<State>& states() { return states_; }

  /// Copies the master weights to the model.
  void publish();

 private:
  Compute& compute_;
  Model& model_;
  std::vector<State> states_;  ///< one per parameter
  Array squared_norm_;         ///< [1] float64
  Array pace_;                 ///< an AdamWPace
};

}  // namespace trainer::gpt2
