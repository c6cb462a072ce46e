// Gradient reducers of a model: one per place, since the parameters of a reducer are on one device.
#pragma once

#include "trainers/trainer/model.hpp"
#include "trainers/trainer/options.hpp"
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace trainer {

/// Used like a GradientReducer. Sums instead of averaging: workers divide by the samples of all
/// workers in advance.
class ModelReducer {
 public:
  /// Broadcasts rank 0's parameters, and assigns each parameter of `model` its gradient's memory in
  /// a bucket, which saves copies. A collective.
  ModelReducer(const ddprun::ProcessGroup& group, Model& model, const Options& options);

  void zero_gradients();
  void begin(bool synchronise);

  /// On a device, the gradient is complete after the current work on its stream.
  void ready(const Parameter& parameter);

  /// Returns the timeline of each place. On a device, only its stream waits for the other workers.
  std::vector<ddprun::StepTimeline> finish();

  /// Must be called after finish(): blocks until gradients on devices are reduced as well.
  void synchronise();

  /// Returns the logging data of the last layer's reducer.
  ddprun::DdpLoggingData logging_data() const { return parts_.back().reducer.logging_data(); }

 private:
  struct Part {
    Compute* compute;
    std::vector<Parameter*> parameters;
    ddprun::GradientReducer reducer;
  };

  /// Points gradients to the current buckets.
  void attach_gradients();

  std::vector<Part> parts_;
  /// reducer and index within it, by parameter index
  std::vector<std::pair<std::size_t, std::size_t>> slots_;
};

}  // namespace trainer
