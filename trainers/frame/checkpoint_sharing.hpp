// One worker's checkpoint on all workers, so that all resume from the same step and only one of
// them needs the folder.
#pragma once

#include <ddprun/checkpoint.hpp>
#include <ddprun/process_group.hpp>

#include <optional>

namespace trainer {

/// Rank 0's checkpoint, or its lack, on every rank; `own` counts on rank 0 only. All ranks must
/// call it. Blocks.
std::optional<ddprun::Checkpoint> share_checkpoint(ddprun::ProcessGroup& group,
                                                   std::optional<ddprun::Checkpoint> own);

}  // namespace trainer
