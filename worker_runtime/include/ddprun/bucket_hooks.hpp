// Ready-made bucket hooks for ReducerOptions::hook. Each keeps its own memory, as large as said
// below, and belongs to one reducer. Buckets of other types than float32 are all-reduced as they
// are.
#pragma once

#include <ddprun/bucket_hook.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun {

/// Sends gradients as `wire_type`, float16 or bfloat16: half the bytes. Each rank's gradient is
/// rounded once, the sum is made in float32 and rounded once more. A float16 beyond 65504 becomes
/// infinite; bfloat16 has float32's range and three significant digits. Takes half a bucket of
/// memory for each bucket. Throws Error{Errc::usage} for another type.
BucketHook compress(ProcessGroup group, DataType wire_type);

/// PowerSGD (Vogels, Karimireddy, Jaggi, 2019): a gradient of n x m elements travels as two
/// matrices of n x rank and m x rank. What they miss is added to the next step's gradient (error
/// feedback), and each step begins with the last one's matrices (warm start). Lossy: the average
/// differs from the exact one in each step, not in the long run.
struct PowerSgdOptions {
  std::size_t rank = 1;  ///< columns of the two matrices; more are more exact
  /// The first steps are exact, as gradients change most there. Their number counts synchronised
  /// steps.
  std::int64_t start_step = 1000;
  /// Gradients of one dimension, and those that would not shrink at least by this factor, travel as
  /// they are.
  double min_compression_rate = 2;
  bool error_feedback = true;  ///< adds what a step missed to the next one
  bool warm_start = true;      ///< begins with the matrices of the last step
  std::uint64_t seed = 0;      ///< of the first matrices; the same on every rank
};

/// A gradient of more than two dimensions counts as a matrix of its first by all others. Takes the
/// memory of a second bucket for each bucket. Ranks end with the same gradients, bit for bit, on
/// devices if these are of one kind. Throws Error{Errc::usage} for a rank of 0.
BucketHook power_sgd(ProcessGroup group, PowerSgdOptions options = {});

/// Post-local SGD (Lin, Stich, Patel, Jaggi, 2018): gradients of all ranks are averaged in the
/// first steps, then only those of `subgroup`, or of nobody, and parameters are averaged now and
/// then by a ModelAverager.
struct PostLocalSgdOptions {
  std::int64_t start_step = 1000;  ///< synchronised steps before
  /// Ranks that go on averaging gradients in every step, e.g. those of a node.
  std::optional<ProcessGroup> subgroup = std::nullopt;
};

BucketHook post_local_sgd(ProcessGroup group, PostLocalSgdOptions options = {});

/// Averages parameters over all ranks after every `period`-th step from `start_step` on. One thread
/// at a time.
class ModelAverager {
 public:
  /// `parameters` are the caller's and must outlive this object. Throws Error{Errc::usage} for a
  /// period below 1.
  ModelAverager(ProcessGroup group, std::vector<Buffer> parameters, std::int64_t period,
                std::int64_t start_step);

  /// To be called after every optimizer step, on all ranks. Blocks when it averages, and returns
  /// true then. Throws what the collective failed with.
  bool step();

 private:
  ProcessGroup group_;
  std::vector<Buffer> parameters_;
  std::int64_t period_;
  std::int64_t start_step_;
  std::int64_t steps_ = 0;
};

}  // namespace ddprun
