// Detects ranks whose parameters differ, for example after a bit flip, an optimizer step on some
// ranks only, or a different order of operations. One thread at a time.
#pragma once

#include "worker_runtime/ddp/tensor_work.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

class DriftCheck {
 public:
  /// `every`: interval in steps; 0 disables.
  explicit DriftCheck(std::int64_t every) : every_(every) {}

  bool is_due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }

  /// Starts an all-gather of 8 bytes per rank into this object, which must live until it has ended.
  /// Parameters on a device are read after the current work on the group's stream.
  Work start(ProcessGroup& group, const TensorWork& tensors, const BucketPlan& plan,
             std::span<const Parameter> parameters, std::int64_t step);

  /// Must be called after that work has ended. Throws Error{Errc::usage} with the first difference
  /// on every rank if ranks differ, and blocks only in that case.
  void finish(ProcessGroup& group, const TensorWork& tensors, const BucketPlan& plan,
              std::span<const Parameter> parameters, std::int64_t step) const;

 private:
  std::int64_t every_;
  std::int64_t own_ = 0;
  std::vector<std::int64_t> all_;
};

}  // namespace ddprun
