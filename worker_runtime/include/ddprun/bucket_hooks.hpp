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
