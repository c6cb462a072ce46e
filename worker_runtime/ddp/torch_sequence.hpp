// The collectives of PyTorch's DDP that differ from the reducer's own: those at construction and
// those with which buckets are rebuilt. Each blocks until all ranks have called it.
#pragma once

#include <ddprun/gradient_reducer.hpp>

#include <span>

namespace ddprun {

/// An all-gather of the number of parameters, and a broadcast of rank 0's sizes and strides. Throws
/// Error{Errc::usage} on each rank whose parameters differ from rank 0's.
void verify_as_torch(ProcessGroup& group, std::span<const Parameter> parameters);

/// Rank 0's `plan` on all ranks: a broadcast of all indices and the number of buckets, and one of
/// the buckets' sizes.
BucketPlan broadcast_plan_as_torch(ProcessGroup& group, std::span<const Parameter> parameters,
                                   const BucketPlan& plan);

}  // namespace ddprun
