// Training state for checkpoints, from which all ranks continue with identical results. No state of
// a random generator is needed, since random numbers are functions of the seed, and the order of
// the sequences of seed and epoch.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/model.hpp"
#include "trainers/gpt2/optimizer.hpp"
#include "trainers/gpt2/settings.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/process_group.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace trainer::gpt2 {

/// Progress of a training, without its arrays.
struct Progress {
  std::int64_t step = 0;  ///< number of completed optimizer steps
  std::string sampler;    ///< ElasticSampler::State::to_text()
};

/// Returns a checkpoint of the training. Waits for the device.
ddprun::Checkpoint to_checkpoint(Compute& compute, const Model& model, Optimizer& optimizer,
                                 const Progress& progress, const Settings& settings);

/// Copies rank 0's checkpoint, if any, to the arrays of all ranks; other ranks' `own` is ignored.
/// Without one, broadcasts rank 0's parameters. Returns the progress; nullopt without a checkpoint.
/// Throws Error{Errc::usage} with all settings that differ from the checkpoint. A collective.
std::optional<Progress> restore(Compute& compute, ddprun::ProcessGroup& group, Model& model,
                                Optimizer& optimizer, const std::optional<ddprun::Checkpoint>& own,
                                const Settings& settings);

/// Returns the FNV-1a hash of all parameters. Waits for the device.
std::uint64_t hash_of(Compute& compute, const Model& model);

}  // namespace trainer::gpt2
