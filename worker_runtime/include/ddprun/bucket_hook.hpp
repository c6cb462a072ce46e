// What may take the place of a bucket's all-reduce in a gradient reducer. The ready-made ones are
// in <ddprun/bucket_hooks.hpp>.
#pragma once

#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace ddprun {

/// One parameter's gradient within a bucket.
struct BucketGradient {
  std::size_t parameter = 0;           ///< its index
  std::span<const std::size_t> shape;  ///< its dimensions, at least one
  Buffer gradient;                     ///< within the bucket's memory
};

/// A complete bucket, as a hook sees it. Pointers and spans are valid for the step.
struct BucketView {
  std::size_t index = 0;  ///< position in the order of the buckets
  bool is_last = false;   ///< of the buckets that a hook is called for in a step
  /// [elements of all parts], before: this rank's own gradients; a hook leaves the result here.
  Buffer gradients;
  std::span<const BucketGradient> parts;  ///< in the order in which they lie there, without gaps
  ReduceOp op = ReduceOp::average;        ///< what the result is to be: average or sum
  /// Changes when buckets are rebuilt: what a hook keeps for a bucket is then another one's.
  std::size_t layout = 0;
};

/// Takes the place of a bucket's all-reduce; averaging is then the hook's affair. All ranks must
/// use the same hook, and it must call the same collectives in the same order on each of them. An
/// exception of either function is thrown by finish(), and fails the group for the other ranks. Not
/// called in a group of one rank.
struct BucketHook {
  /// For errors and logs; compared across the ranks.
  std::string name;
  /// Called once a step for every bucket, in the order of the buckets and one at a time, by the
  /// thread that completes it: it starts collectives and must not wait for them. `work` is set to
  /// what finish() is to wait for before it calls `complete`; buffers must live until then. On a
  /// device the bucket is complete once the group's stream() has come here.
  std::function<void(const BucketView& bucket, Work& work)> start;
  /// If set, called by finish() for every bucket in order, after `work` has ended; on a device the
  /// group's stream() waits for that, and for what is given to it here. May call further
  /// collectives and wait for them, at most until `deadline`. These are the hook's alone: where it
  /// gives up, it aborts the group and waits for them without deadline before it throws, lest they
  /// write into memory that has gone.
  std::function<void(const BucketView& bucket, Deadline deadline)> complete = {};
  /// For a `complete` that lets the group's stream() wait for its collectives rather than waiting
  /// itself: called by finish() without a stream and by synchronise(), blocks until those
  /// collectives have ended, and throws what they failed with.
  std::function<void(Deadline deadline)> await = {};
  /// False if ranks end a step with different gradients on purpose.
  bool keeps_ranks_equal = true;
};

}  // namespace ddprun
