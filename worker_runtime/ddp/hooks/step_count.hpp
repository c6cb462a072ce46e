// Counts the steps of a reducer as a hook sees them: by their last buckets.
#pragma once

#include <ddprun/bucket_hook.hpp>

#include <cstdint>

namespace ddprun {

class StepCount {
 public:
  /// Of the step that this bucket is of: how many came before it. To be called once for each
  /// bucket.
  std::int64_t before(const BucketView& bucket) {
    const std::int64_t before = steps_;
    if (bucket.is_last) ++steps_;
    return before;
  }

 private:
  std::int64_t steps_ = 0;
};

}  // namespace ddprun
