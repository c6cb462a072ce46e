// Finds ranks of this node that compute longer than others, from samples of the workers. Pure: the
// caller takes the samples, supplies the time and reports the findings.
//
// The worker runtime counts the time that a rank spends in collectives. The rest of its time is its
// own work. In a run that meets in collectives, the ranks make the same number of steps, so the
// slowest rank has the largest part of work, and the others wait for it. The parts of ranks on
// several nodes are comparable without a common clock.
#pragma once

#include "launcher/process/worker_sample.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace ddprun {

/// A rank that has become slow or has recovered.
struct SlowRank {
  /// What the rank does in the time that other ranks do not need.
  enum class Phase {
    unknown,
    computes,
    queued,  ///< is ready to run, but has no CPU
    sleeps,  ///< waits for input, a file or another process
  };
  int rank = 0;
  bool is_slow = true;                ///< false: it is as fast as the others again
  double factor = 1;                  ///< its time between collectives, in multiples of the median
  std::chrono::milliseconds time{0};  ///< for which it was observed
  Phase phase = Phase::unknown;
  double part = 0;  ///< part of the time in `phase`

  bool operator==(const SlowRank&) const = default;
};

class SlowRankDetector {
 public:
  using Time = RunClock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  /// `other_ranks`: workers on other nodes.
  explicit SlowRankDetector(int other_ranks) : other_ranks_(other_ranks) {}

  /// Takes a sample of all live workers of this node. Returns the ranks that have become slow or
  /// have recovered.
  std::vector<SlowRank> observe(Time now, const std::vector<WorkerSample>& workers);

  /// Returns the median part of time that ranks of this node do not spend in collectives, in
  /// thousandths; -1 until it is known.
  int work_share() const { return work_share_; }

  /// Sets the median of all nodes; -1: unknown.
  void set_run_share(int share) { run_share_ = share; }

 private:
  /// Measurements of a rank between two samples, as parts of the time.
  struct Block {
    Milliseconds time{0};
    double factor = 1;
    double run = -1;     ///< -1: unknown
    double queued = -1;  ///< -1: unknown
    double waited = 0;   ///< in collectives
  };
  struct History {
    std::deque<Block> blocks;
    bool is_slow = false;
  };

  void restart(Time now, const std::vector<WorkerSample>& workers);
  bool is_complete(Time now, const std::vector<WorkerSample>& workers) const;
  std::optional<double> reference(std::vector<double> shares);
  static std::optional<SlowRank> judge(int rank, History& history);

  int other_ranks_;
  std::optional<Time> last_sample_;
  Time begin_{};                               ///< of the current block
  std::map<int, WorkerSample> begin_samples_;  ///< by rank
  std::map<int, History> histories_;           ///< by rank
  int work_share_ = -1;
  int run_share_ = -1;
};

}  // namespace ddprun
