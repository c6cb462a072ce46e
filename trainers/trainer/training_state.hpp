// What training needs to go on as if nothing had happened, as a checkpoint and back. There is no
// random generator to save: every random number is a function of the seed and the epoch.
#pragma once

#include "trainers/trainer/model.hpp"
#include "trainers/trainer/optimizer.hpp"
#include <ddprun/checkpoint.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

namespace trainer {

struct Progress {
  std::int64_t step = 0;          ///< optimizer steps so far
  std::int64_t epoch = 0;         ///< the one under way, from 0
  std::int64_t samples_used = 0;  ///< of this epoch, by all workers: a prefix of its order
  double epoch_loss = 0;          ///< summed over these samples

  bool operator==(const Progress&) const = default;
};

/// That of the last step, from 1; 0 before the first.
std::int64_t epoch_of_last_step(const Progress& progress);

/// An object: name and value of every setting on which the parameters depend, bit for bit. Options
/// have their names, without dashes.
using Settings = nlohmann::json;

/// Waits for the device.
ddprun::Checkpoint to_checkpoint(const Model& model, Optimizer& optimizer, const Progress& progress,
                                 const Settings& settings);

/// Fills `model` and `optimizer` and returns the progress, also of a checkpoint from another kind
/// of device. Throws Error{Errc::usage} naming each
/// setting that was another when the checkpoint was made, or the section that does not fit.
Progress restore(const ddprun::Checkpoint& checkpoint, Model& model, Optimizer& optimizer,
                 const Settings& settings);

/// FNV-1a over the bits of all parameters and buffers. Waits for the device.
std::uint64_t hash_of(const Model& model);

}  // namespace trainer
