// The collectives of PyTorch's DDP that differ from the reducer's own: at construction and when
// buckets are rebuilt. Each blocks until all ranks have called it.
#pragma once

#include <ddprun/gradient_reducer.hpp>

#include <span>

namespace ddprun {

/// Runs an all-gather of the number of parameters and a broadcast of rank 0's sizes and strides.
/// Throws Error{Errc::usage} on each rank whose parameters differ from rank 0's.
void verify_as_torch(ProcessGroup& group, std::span<const Parameter> parameters);

/// Returns rank 0's `plan`: broadcasts all indices with the number of buckets, then the bucket
/// sizes.
BucketPlan broadcast_plan_as_torch(ProcessGroup& group, std::span<const Parameter> parameters,
                                   const BucketPlan& plan);

}  // namespace ddprun
