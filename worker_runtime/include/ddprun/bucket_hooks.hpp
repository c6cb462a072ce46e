// Bucket hooks for ReducerOptions::hook. A hook belongs to one reducer. Buckets whose type is not
// float32 are all-reduced unchanged.
#pragma once

#include <ddprun/bucket_hook.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun {

/// Returns a hook that transfers gradients as `wire_type`, float16 or bfloat16, which halves the
/// bytes. Rounds each rank's gradient, computes the sum in float32 and rounds the sum. Values
/// beyond 65504 become infinite in float16; bfloat16 has float32's range and three significant
/// digits. Allocates half a bucket per bucket. Throws Error{Errc::usage} for other types.
BucketHook compress(ProcessGroup group, DataType wire_type);

/// Options of post-local SGD (Lin, Stich, Patel, Jaggi, 2018). The first steps average gradients
/// over all ranks. Later steps average them over `subgroup` or not at all, and a ModelAverager
/// averages the parameters periodically.
struct PostLocalSgdOptions {
  std::int64_t start_step = 1000;  ///< number of steps that average over all ranks
  /// Ranks that average gradients in later steps, such as the ranks of a node.
  std::optional<ProcessGroup> subgroup = std::nullopt;
};

BucketHook post_local_sgd(ProcessGroup group, PostLocalSgdOptions options = {});

/// Averages parameters over all ranks after every `period`-th step from `start_step` on. One thread
/// at a time.
class ModelAverager {
 public:
  /// `parameters` belong to the caller and must outlive this object. Throws Error{Errc::usage} for
  /// a period below 1.
  ModelAverager(ProcessGroup group, std::vector<Buffer> parameters, std::int64_t period,
                std::int64_t start_step);

  /// Must be called after every optimizer step on all ranks. Returns true if it averaged, which
  /// blocks. Throws failures of the collectives.
  bool step();

 private:
  ProcessGroup group_;
  std::vector<Buffer> parameters_;
  std::int64_t period_;
  std::int64_t start_step_;
  std::int64_t steps_ = 0;
};

}  // namespace ddprun
