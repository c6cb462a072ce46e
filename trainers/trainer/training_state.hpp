// Training state for checkpoints, from which training continues with identical results. No state of
// a random generator is needed, since random numbers are functions of seed and epoch.
#pragma once

#include "trainers/trainer/model.hpp"
#include "trainers/trainer/optimizer.hpp"
#include <ddprun/checkpoint.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace trainer {

struct Progress {
  std::int64_t step = 0;   ///< number of completed optimizer steps
  std::int64_t epoch = 0;  ///< current epoch, from 0
  /// samples that all workers have used in this epoch: a prefix of its order
  std::int64_t samples_used = 0;
  double epoch_loss = 0;  ///< sum over these samples

  bool operator==(const Progress&) const = default;
};

/// Returns the epoch of the last step, from 1; 0 before the first step.
std::int64_t epoch_of_last_step(const Progress& progress);

/// JSON object with names and values of all settings that affect the parameters. Options are named
/// without dashes.
using Settings = nlohmann::json;

/// Returns a checkpoint of the training. Waits for the device.
ddprun::Checkpoint to_checkpoint(const Model& model, Optimizer& optimizer, const Progress& progress,
                                 const Settings& settings);

/// Restores `model` and `optimizer`, also from another kind of device, and returns the progress.
/// Throws Error{Errc::usage} with all settings that differ from the checkpoint, or with the section
/// that does not fit.
Progress restore(const ddprun::Checkpoint& checkpoint, Model& model, Optimizer& optimizer,
                 const Settings& settings);

/// Returns the FNV-1a hash of all parameters and buffers. Waits for the device.
std::uint64_t hash_of(const Model& model);

}  // namespace trainer
