// The gradient reducers of a model: one for each place in which it has parameters, since those of a
// reducer are all on one device.
#pragma once

#include "trainers/trainer/model.hpp"
#include "trainers/trainer/options.hpp"
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace trainer {

/// Used as a GradientReducer is. It adds up rather than averages: a worker divides by the samples
/// of all workers before.
class ModelReducer {
 public:
  /// Gives every rank rank 0's parameters, and each parameter of `model` the memory for its
  /// gradient, so that gradients are not copied before they are sent. All ranks must call it.
  ModelReducer(const ddprun::ProcessGroup& group, Model& model, const Options& options);

  void zero_gradients();
  void begin(bool synchronise);

  /// Where a device computes the parameter: once its stream has come here.
  void ready(const Parameter& parameter);

  /// Of each place. On a device only its stream waits for the other workers.
  std::vector<ddprun::StepTimeline> finish();

  /// After finish(): blocks until the gradients on devices are reduced, too.
  void synchronise();

  /// Of the place of the last layer.
  ddprun::DdpLoggingData logging_data() const { return parts_.back().reducer.logging_data(); }

 private:
  struct Part {
    Compute* compute;
    std::vector<Parameter*> parameters;
    ddprun::GradientReducer reducer;
  };

  /// Lets backward passes write where the reducers want gradients now.
  void attach_gradients();

  std::vector<Part> parts_;
  std::vector<std::pair<std::size_t, std::size_t>> slots_;  ///< part and place in it, by index
};

}  // namespace trainer
