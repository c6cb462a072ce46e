// Bucket hooks for ReducerOptions::hook. A hook belongs to one reducer. Buckets of other types than
// float32 are all-reduced unchanged.
#pragma once

#include <ddprun/bucket_hook.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun {

/// Transfers gradients as `wire_type`, float16 or bfloat16: half the bytes. Each rank's gradient is
/// rounded; the sum is computed in float32 and rounded again. Values beyond 65504 become infinite
/// in float16; bfloat16 has float32's range and three significant digits. Allocates half a bucket
/// for each bucket. Throws Error{Errc::usage} for other types.
BucketHook compress(ProcessGroup group, DataType wire_type);

/// Post-local SGD (Lin, Stich, Patel, Jaggi, 2018): the first steps average gradients over all
/// ranks, later ones over `subgroup` or not at all; a ModelAverager averages parameters
/// periodically.
struct PostLocalSgdOptions {
  std::int64_t start_step = 1000;  ///< number of first steps, synchronised ones
  /// Ranks that average gradients in every later step, such as those of a node.
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

  /// To be called after every optimizer step, on all ranks. If it averages, it blocks and returns
  /// true. Throws failures of the collectives.
  bool step();

 private:
  ProcessGroup group_;
  std::vector<Buffer> parameters_;
  std::int64_t period_;
  std::int64_t start_step_;
  std::int64_t steps_ = 0;
};

}  // namespace ddprun
