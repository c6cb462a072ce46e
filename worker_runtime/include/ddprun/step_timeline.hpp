// When what happened in a step of a gradient reducer, and what a reducer tells of itself. Plain
// values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// What happened to one bucket in a step. Seconds since begin().
struct BucketTimeline {
  std::size_t index = 0;        ///< position in launch order
  std::size_t bytes = 0;        ///< of all its gradients
  double ready_seconds = 0;     ///< its last gradient was ready
  double launched_seconds = 0;  ///< its all-reduce was queued
  double done_seconds = 0;      ///< its all-reduce had ended, or what else its hook does
};

/// What happened in one step. Seconds since begin() but where it says otherwise.
struct StepTimeline {
  std::vector<BucketTimeline>
      buckets;                       ///< in launch order; empty for a step without synchronisation
  double finish_called_seconds = 0;  ///< the backward pass was over
  double finished_seconds =
      0;  ///< the gradients could be used: what is beyond finish_called is exposed
  std::chrono::steady_clock::time_point begun{};  ///< when begin() was called
  double forward_seconds = 0;  ///< from the end of begin_forward() to begin(); 0 without the former

  /// Communication that the backward pass did not hide.
  double exposed_seconds() const { return finished_seconds - finish_called_seconds; }
  /// Of the seconds after finish_called, those in which each bucket was waited for: it was not done
  /// and those before it were. In launch order.
  std::vector<double> exposed_by_bucket() const;
  /// From the first bucket's launch to the last one's end.
  double communication_seconds() const;
  /// From the first bucket's launch to the end of the backward pass.
  double overlap_seconds() const;
};

/// What PyTorch's DDP calls its logging data, by PyTorch's names: numbers, times in nanoseconds,
/// and lists as text with ", " between. Names of devices and of what this reducer does not have are
/// left out.
struct DdpLoggingData {
  std::map<std::string, std::int64_t> ints;    ///< by PyTorch's names
  std::map<std::string, std::string> strings;  ///< by PyTorch's names
};

}  // namespace ddprun
