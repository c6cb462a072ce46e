// Logging data of a reducer under PyTorch's names. One thread at a time.
#pragma once

#include "worker_runtime/ddp/bucket_layout.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <span>
#include <string>
#include <vector>

namespace ddprun {

class ReducerLog {
 public:
  ReducerLog(const ProcessGroup& group, std::span<const Parameter> parameters,
             const ReducerOptions& options, const BucketPlan& first_plan);

  /// Adds the times of a completed step.
  void add(const StepTimeline& timeline);

  /// `order`: order in which gradients became ready in the last observed step.
  DdpLoggingData data(const BucketLayout& layout, std::span<const std::size_t> order,
                      std::int64_t unused_bytes) const;

 private:
  /// One of PyTorch's times.
  struct Time {
    const char* name;
    double last = 0;   ///< seconds
    double total = 0;  ///< seconds
  };

  DdpLoggingData constant_;
  std::vector<Time> times_;
  std::int64_t steps_ = 0;
  StepTimeline last_;
};

}  // namespace ddprun
