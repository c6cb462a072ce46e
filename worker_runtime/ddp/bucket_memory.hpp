// The memory of a reducer's buckets. On devices it is such that collectives need no copies, if all
// ranks can have it; otherwise any.
#pragma once

#include "worker_runtime/ddp/tensor_work.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <memory>
#include <vector>

namespace ddprun {

/// For each bucket of `plan`, zeroed; none for those without elements. All ranks call it with the
/// same plan and sequence. Blocks, on a device until they have.
std::vector<std::shared_ptr<void>> allocate_buckets(ProcessGroup group, const TensorWork& work,
                                                    const BucketPlan& plan,
                                                    CollectiveSequence sequence);

}  // namespace ddprun
