// Interface of hooks that replace a bucket's all-reduce in a gradient reducer.
// <ddprun/bucket_hooks.hpp> has implementations.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace ddprun {

/// A parameter's gradient in a bucket.
struct BucketGradient {
  std::size_t parameter = 0;           ///< index of the parameter
  std::span<const std::size_t> shape;  ///< dimensions, at least one
  Buffer gradient;                     ///< part of the bucket's memory
};

/// A complete bucket. Pointers and spans are valid during the step.
struct BucketView {
  std::size_t index = 0;  ///< index in launch order
  bool is_last = false;   ///< true for the last bucket of a step
  /// Elements of all parts: this rank's gradients before the hook, the result after it.
  Buffer gradients;
  std::span<const BucketGradient> parts;  ///< contiguous, in memory order
  ReduceOp op = ReduceOp::average;        ///< requested result: average or sum
  /// Number of rebuilds. A rebuild invalidates data that a hook keeps per bucket.
  std::size_t layout = 0;
};

/// Replaces a bucket's all-reduce, including averaging. All ranks must use the same hook, which
/// must call the same collectives in the same order on each rank. finish() rethrows exceptions of
/// these functions; they fail the group on the other ranks. Not called in a group of one rank.
struct BucketHook {
  /// Name in errors and logs; equal on all ranks.
  std::string name;
  /// Called once per step for each bucket, in order and one at a time, by the thread that completes
  /// the bucket. Starts collectives without waiting for them, and sets `work` to the one that
  /// finish() awaits before `complete`. Buffers must live until then. On a device, the bucket is
  /// complete after the current work on the group's stream().
  std::function<void(const BucketView& bucket, Work& work)> start;
  /// If set, finish() calls it for each bucket in order after `work` has ended. On a device, work
  /// on the group's stream() runs after `work`. It may call further collectives and wait for them
  /// until `deadline`. Before it throws, it must abort the group and wait without a deadline for
  /// collectives that have not ended, since they access the group's memory.
  std::function<void(const BucketView& bucket, Deadline deadline)> complete = {};
  /// If set, called by finish() without a stream and by synchronise(). Blocks until the collectives
  /// of `complete` that the group's stream() waits for have ended, and throws their failures.
  std::function<void(Deadline deadline)> await = {};
  /// False if gradients may differ between ranks after a step.
  bool keeps_ranks_equal = true;
};

}  // namespace ddprun
