// Times of a step of a gradient reducer, and its logging data. Plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// Times of a bucket in a step, in seconds since begin().
struct BucketTimeline {
  std::size_t index = 0;        ///< index in launch order
  std::size_t bytes = 0;        ///< size of its gradients
  double ready_seconds = 0;     ///< time when the last gradient was ready
  double launched_seconds = 0;  ///< time when the all-reduce was queued
  double done_seconds = 0;      ///< time when the all-reduce or hook had ended
};

/// Times of a step, in seconds since begin() unless stated otherwise.
struct StepTimeline {
  std::vector<BucketTimeline>
      buckets;                       ///< in launch order; empty for a step without synchronisation
  double finish_called_seconds = 0;  ///< end of the backward pass
  double finished_seconds = 0;       ///< time when gradients could be used
  std::chrono::steady_clock::time_point begun{};  ///< time of begin()
  double forward_seconds =
      0;  ///< time from the end of begin_forward() to begin(); 0 without the former

  /// Returns the communication time that did not overlap with the backward pass.
  double exposed_seconds() const { return finished_seconds - finish_called_seconds; }
  /// Returns the exposed seconds of each bucket in launch order: the time after
  /// finish_called_seconds during which all earlier buckets were done but this bucket was not.
  std::vector<double> exposed_by_bucket() const;
  /// Returns the time from the first launch to the last end of a bucket.
  double communication_seconds() const;
  /// Returns the time from the first launch of a bucket to the end of the backward pass.
  double overlap_seconds() const;
};

/// Logging data under the names of PyTorch's DDP: numbers, times in nanoseconds, and lists as text
/// separated by ", ". Lacks device names and features that this reducer does not have.
struct DdpLoggingData {
  std::map<std::string, std::int64_t> ints;    ///< numbers and times by name
  std::map<std::string, std::string> strings;  ///< texts and lists by name
};

}  // namespace ddprun
