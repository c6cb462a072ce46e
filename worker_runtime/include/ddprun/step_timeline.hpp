// When what happened in a step of a gradient reducer. Plain values.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun {

/// What happened to one bucket in a step. Seconds since begin().
struct BucketTimeline {
  std::size_t index = 0;
  std::size_t bytes = 0;
  double ready_seconds = 0;     ///< its last gradient was ready
  double launched_seconds = 0;  ///< its all-reduce was queued
  /// Its all-reduce had ended, as far as anybody looked: at the next complete bucket, or in
  /// finish(). Exact for what finish() waited for.
  double done_seconds = 0;
};

struct StepTimeline {
  std::vector<BucketTimeline>
      buckets;                       ///< in launch order; empty for a step without synchronisation
  double finish_called_seconds = 0;  ///< the backward pass was over
  double finished_seconds =
      0;  ///< the gradients could be used: what is beyond finish_called is exposed

  double exposed_seconds() const { return finished_seconds - finish_called_seconds; }
};

}  // namespace ddprun
