// Finds out when ranks that should be equal are not: a bit flipped in memory, a step taken by some
// only, another order of operations. One thread at a time.
#pragma once

#include "worker_runtime/ddp/tensor_work.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace ddprun {

class DriftCheck {
 public:
  /// For every `every`-th step; 0: for none.
  explicit DriftCheck(std::int64_t every) : every_(every) {}

  bool is_due(std::int64_t step) const { return every_ > 0 && step % every_ == 0; }

  /// Starts an all-gather of 8 bytes of each rank, into memory that must live until it is done.
  /// Parameters on a device are read for that, once the group's stream has come here.
  Work start(ProcessGroup& group, const TensorWork& tensors, const BucketPlan& plan,
             std::span<const Parameter> parameters, std::int64_t step);

  /// When that work is done. Throws Error{Errc::usage} on every rank if the ranks differ, which
  /// says where; blocks for that alone.
  void finish(ProcessGroup& group, const TensorWork& tensors, const BucketPlan& plan,
              std::span<const Parameter> parameters, std::int64_t step) const;

 private:
  std::int64_t every_;
  std::int64_t own_ = 0;
  std::vector<std::int64_t> all_;
};

}  // namespace ddprun
