// Sends one worker's checkpoint to all workers, so that all resume from the same step and only one
// worker needs access to the directory.
#pragma once

#include <ddprun/checkpoint.hpp>
#include <ddprun/process_group.hpp>

#include <optional>

namespace trainer {

/// Returns rank 0's checkpoint, if any, on every rank; ignores `own` on other ranks. A collective;
/// blocks.
std::optional<ddprun::Checkpoint> share_checkpoint(ddprun::ProcessGroup& group,
                                                   std::optional<ddprun::Checkpoint> own);

}  // namespace trainer
