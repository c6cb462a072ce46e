// What training needs to go on as if nothing had happened, as a checkpoint and back, and on all
// ranks alike. There is no random generator to save: every random number is a function of the seed,
// and the order of the sequences of the seed and the epoch.
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

/// Where a training stands, without its arrays.
struct Progress {
  std::int64_t step = 0;  ///< optimizer steps so far
  std::string sampler;    ///< ElasticSampler::State::to_text()
};

/// Waits for the device.
ddprun::Checkpoint to_checkpoint(Compute& compute, const Model& model, Optimizer& optimizer,
                                 const Progress& progress, const Settings& settings);

/// Rank 0's checkpoint, if it has one, in the arrays of all ranks; `own` counts on rank 0 only. All
/// ranks must call it. Without one all have rank 0's parameters. Returns the progress, nothing
/// without a checkpoint. Throws Error{Errc::usage} naming each setting that was another when the
/// checkpoint was made.
std::optional<Progress> restore(Compute& compute, ddprun::ProcessGroup& group, Model& model,
                                Optimizer& optimizer, const std::optional<ddprun::Checkpoint>& own,
                                const Settings& settings);

/// FNV-1a over the bits of all parameters. Waits for the device.
std::uint64_t hash_of(Compute& compute, const Model& model);

}  // namespace trainer::gpt2
