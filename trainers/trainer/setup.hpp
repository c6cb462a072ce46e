// Creates the parts of a training run from options.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/trainer/dataset.hpp"
#include "trainers/trainer/model.hpp"
#include "trainers/trainer/model_reducer.hpp"
#include "trainers/trainer/optimizer.hpp"
#include "trainers/trainer/options.hpp"
#include "trainers/trainer/training_state.hpp"
#include <ddprun/worker_env.hpp>

#include <memory>
#include <string>

namespace trainer {

TrainAndTest load_data(const Options& options);

/// Devices of --device and of --embedding_device, if that differs.
struct Computes {
  std::unique_ptr<Compute> rest;
  std::unique_ptr<Compute> embedding;  ///< null if equal to the rest's

  Places places(const Options& options) const;
};

Computes make_computes(const Options& options, const ddprun::WorkerEnv& env);

Model make_model(const Options& options, const Dataset& train_set, const Places& places);

std::unique_ptr<Optimizer> make_optimizer(const Options& options, const Model& model);

Settings settings_of(const Options& options, const ddprun::WorkerEnv& env,
                     const Dataset& train_set);

/// Returns text such as "resumed after step 300, in epoch 2/8", or why no steps are left.
std::string resumed_text(const Progress& progress, const Options& options);

/// Returns the learning rate of step `step`, counted from 1 over all epochs.
float learning_rate(const Options& options, std::int64_t step, std::int64_t steps_per_epoch);

/// Returns the metrics' "ddp" event with the reducer's logging data under PyTorch's names.
nlohmann::ordered_json ddp_event(const ModelReducer& reducer);

}  // namespace trainer
