// AdamW over a model's parameters: its arrays, and the norm of the gradients by which it clips.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/model.hpp"
#include "trainers/gpt2/options.hpp"

#include <cstdint>
#include <vector>

namespace trainer::gpt2 {

class Optimizer {
 public:
  /// Of one parameter. Statistics are float32, float64 for a model in float64.
  struct State {
    Array mean;    ///< of the gradient
    Array square;  ///< mean of the gradient's square
    Array master;  ///< float32 of a parameter in bfloat16; otherwise the parameter's values
  };

  /// `compute` and `model` must outlive it. The master weights are what the model's values are now.
  Optimizer(Compute& compute, Model& model);

  /// Puts what updates of step `step` depend on, which counts from 1, into the device's memory.
  void set_step(const Options& options, std::int64_t step);

  /// Changes the parameters by their gradients. Asks the device for the same in each step.
  void update(const Options& options);

  /// Of the last update's gradients, before they were clipped. Waits for the device.
  double gradient_norm();

  std::vector<State>& states() { return states_; }

  /// Gives the model the values of the master weights.
  void publish();

 private:
  Compute& compute_;
  Model& model_;
  std::vector<State> states_;  ///< one per parameter
  Array squared_norm_;         ///< [1] float64
  Array pace_;                 ///< an AdamWPace
};

}  // namespace trainer::gpt2
