// Allocates the memory of a reducer's buckets: on devices registered memory, which collectives do
// not copy, if all ranks can allocate it; otherwise unregistered memory.
#pragma once

#include "worker_runtime/ddp/tensor_work.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <memory>
#include <vector>

namespace ddprun {

/// Returns zeroed memory for each bucket of `plan`; null for buckets without elements. Must be
/// called on all ranks with the same plan and sequence. Blocks; on a device, until all ranks have
/// called it.
std::vector<std::shared_ptr<void>> allocate_buckets(ProcessGroup group, const TensorWork& work,
                                                    const BucketPlan& plan,
                                                    CollectiveSequence sequence);

}  // namespace ddprun
