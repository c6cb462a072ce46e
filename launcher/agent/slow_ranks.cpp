#include "launcher/agent/slow_ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ddprun {

namespace {

using namespace std::chrono_literals;
using Milliseconds = SlowRankDetector::Milliseconds;
using Phase = SlowRank::Phase;

/// Minimum duration of a block, and calls of each rank in it. A save or an evaluation on one rank
/// is a single long block.
constexpr Milliseconds kBlockTimeMin = 2s;
constexpr std::uint64_t kBlockCallsMin = 2;
/// Blocks for a decision: at least 20 s and 20 calls. Under load a rank may be slow for 10 s.
constexpr std::size_t kBlocks = 10;
/// Mean factor of a slow rank.
constexpr double kSlowFactor = 1.2;
/// Factor that a slow rank exceeds in each block, and a rank that has recovered in none.
constexpr double kNormalFactor = 1.1;
/// After a longer time without samples, this process and perhaps the workers were suspended.
constexpr Milliseconds kSuspended = 5s;
/// A main thread that runs less does not do the rank's work.
constexpr double kRunPartMin = 0.02;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

bool is_disturbed(const WorkerSample& worker) {
  return worker.is_traced || worker.state == 'T' || worker.state == 't';
}

/// Returns -1 if a time is unknown.
double part_of(const std::optional<std::chrono::nanoseconds>& begin,
               const std::optional<std::chrono::nanoseconds>& end, double duration) {
  return begin && end ? std::clamp(seconds(*end - *begin) / duration, 0.0, 1.0) : -1;
}

template <typename Blocks, typename Member>
double mean(const Blocks& blocks, Member member) {
  double sum = 0;
  for (const auto& block : blocks) sum += block.*member;
  return sum / static_cast<double>(blocks.size());
}

}  // namespace

std::vector<SlowRank> SlowRankDetector::observe(Time now,
                                                const std::vector<WorkerSample>& workers) {
  const bool is_suspended = !last_sample_ || now - *last_sample_ > kSuspended;
  last_sample_ = now;
  const bool are_same =
      workers.size() == begin_samples_.size() &&
      std::all_of(workers.begin(), workers.end(), [this](const WorkerSample& worker) {
        const auto begin = begin_samples_.find(worker.rank);
        return begin != begin_samples_.end() && begin->second.pid == worker.pid &&
               begin->second.activity.started <= worker.activity.started &&
               begin->second.activity.waited <= worker.activity.waited;
      });
  if (is_suspended || !are_same || std::any_of(workers.begin(), workers.end(), is_disturbed)) {
    for (auto& [rank, history] : histories_) history.blocks.clear();
    restart(now, workers);
    return {};
  }
  if (!is_complete(now, workers)) return {};
  const double duration = seconds(now - begin_);
  std::vector<double> shares;
  for (const auto& worker : workers) {
    const auto& begin = begin_samples_.at(worker.rank);
    const auto waited = seconds(worker.activity.waited - begin.activity.waited);
    shares.push_back(std::clamp(1 - waited / duration, 0.001, 1.0));
  }
  std::vector<SlowRank> findings;
  const auto normal = reference(shares);
  for (std::size_t i = 0; normal && i < workers.size(); ++i) {
    const auto& worker = workers[i];
    const auto& begin = begin_samples_.at(worker.rank);
    History& history = histories_[worker.rank];
    history.blocks.push_back({.time = std::chrono::duration_cast<Milliseconds>(now - begin_),
                              .factor = shares[i] / *normal,
                              .run = part_of(begin.main_time, worker.main_time, duration),
                              .queued = part_of(begin.queued_time, worker.queued_time, duration),
                              .waited = 1 - shares[i]});
    if (history.blocks.size() > kBlocks) history.blocks.pop_front();
    if (const auto finding = judge(worker.rank, history)) findings.push_back(*finding);
  }
  restart(now, workers);
  return findings;
}

void SlowRankDetector::restart(Time now, const std::vector<WorkerSample>& workers) {
  begin_ = now;
  begin_samples_.clear();
  for (const auto& worker : workers) begin_samples_.emplace(worker.rank, worker);
}

bool SlowRankDetector::is_complete(Time now, const std::vector<WorkerSample>& workers) const {
  return !workers.empty() && now - begin_ >= kBlockTimeMin &&
         std::all_of(workers.begin(), workers.end(), [this](const WorkerSample& worker) {
           return worker.activity.started - begin_samples_.at(worker.rank).activity.started >=
                  kBlockCallsMin;
         });
}

/// Returns the lower median of the ranks, those of other nodes with the median of all; nullopt if
/// there is nothing to compare with. Sets work_share_.
std::optional<double> SlowRankDetector::reference(std::vector<double> shares) {
  const auto lower_median = [&shares] {
    const auto middle = shares.begin() + (static_cast<std::ptrdiff_t>(shares.size()) - 1) / 2;
    std::nth_element(shares.begin(), middle, shares.end());
    return *middle;
  };
  work_share_ = static_cast<int>(1000 * lower_median());
  if (other_ranks_ > 0 && run_share_ < 0) return std::nullopt;
  if (other_ranks_ == 0 && shares.size() == 1) return std::nullopt;
  shares.insert(shares.end(), static_cast<std::size_t>(other_ranks_), run_share_ / 1000.0);
  return lower_median();
}

std::optional<SlowRank> SlowRankDetector::judge(int rank, History& history) {
  const auto& blocks = history.blocks;
  if (blocks.size() < kBlocks) return std::nullopt;
  const auto is_normal = [](const Block& block) { return block.factor < kNormalFactor; };
  const double factor = mean(blocks, &Block::factor);
  const bool becomes_slow = !history.is_slow && factor >= kSlowFactor &&
                            std::none_of(blocks.begin(), blocks.end(), is_normal);
  const bool recovers = history.is_slow && std::all_of(blocks.begin(), blocks.end(), is_normal);
  if (!becomes_slow && !recovers) return std::nullopt;
  history.is_slow = becomes_slow;
  SlowRank slow{.rank = rank, .is_slow = becomes_slow, .factor = factor};
  for (const auto& block : blocks) slow.time += block.time;
  const double run = mean(blocks, &Block::run);
  const double queued = mean(blocks, &Block::queued);
  const double slept = std::max(1 - run - queued - mean(blocks, &Block::waited), 0.0);
  if (!becomes_slow || run < kRunPartMin || queued < 0) return slow;
  // The part of the time that a rank of normal speed does not need.
  const double excess = 1 - 1 / factor;
  if (queued >= excess / 2) {
    slow.phase = Phase::queued;
    slow.part = queued;
  } else if (slept >= excess / 2) {
    slow.phase = Phase::sleeps;
    slow.part = slept;
  } else {
    slow.phase = Phase::computes;
    slow.part = run;
  }
  return slow;
}

}  // namespace ddprun
