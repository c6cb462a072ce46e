// Finds ranks of this node that take longer than others between collectives, from samples of the
// workers. Pure: the caller takes the samples, supplies the time and reports the findings.
//
// The worker runtime counts the time that a rank waits for collectives. The rest of its time is its
// own work. If all ranks call the same collectives, they make the same number of steps, so the
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
  /// Activity of the rank during the excess time.
  enum class Phase {
    unknown,
    computes,  ///< or any other activity than these:
    queued,    ///< ready to run, but without a CPU
    sleeps,    ///< waits for input, a file, another thread or process
  };
  int rank = 0;
  bool is_slow = true;                ///< false: it has recovered
  double factor = 1;                  ///< its time between collectives, in multiples of the median
  std::chrono::milliseconds time{0};  ///< duration of the observation
  Phase phase = Phase::unknown;
  double part = 0;  ///< part of its time in `phase`

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
  /// thousandths, at least 1; -1 until it is known.
  int work_share() const { return work_share_; }

  /// Sets the median of all ranks of the run; -1: unknown.
  void set_run_share(int share) { run_share_ = share; }

 private:
  /// Parts of a rank's time between two samples.
  struct Block {
    Milliseconds time{0};
    double work = 0;    ///< outside collectives
    double excess = 0;  ///< of `work`, over the run's median
    double factor = 1;  ///< of `work` to the run's median
    double run = 0;
    double queued = 0;
    double slept = 0;         ///< outside collectives
    double usual_queued = 0;  ///< median of the node's ranks; 0 for a single rank
    double usual_slept = 0;
    bool are_times_known = true;  ///< the times but `work`
  };
  struct History {
    std::deque<Block> blocks;
    bool is_slow = false;
  };

  void restart(Time now, const std::vector<WorkerSample>& workers);
  bool are_same(const std::vector<WorkerSample>& workers) const;
  bool note_waits(const std::vector<WorkerSample>& workers);
  bool is_complete(Time now, const std::vector<WorkerSample>& workers) const;
  Block block_of(const WorkerSample& worker, Milliseconds time) const;
  std::optional<double> usual_work(const std::vector<Block>& blocks);
  static std::optional<SlowRank> judge(int rank, History& history);

  int other_ranks_;
  std::optional<Time> last_sample_;
  Time begin_{};                               ///< of the current block
  std::map<int, WorkerSample> begin_samples_;  ///< by rank
  std::map<int, std::uint64_t> waits_;         ///< in the last sample, by rank
  std::map<int, History> histories_;           ///< by rank
  int work_share_ = -1;
  int run_share_ = -1;
};

}  // namespace ddprun
