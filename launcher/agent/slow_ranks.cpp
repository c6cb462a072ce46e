#include "launcher/agent/slow_ranks.hpp"

#include "launcher/agent/lower_median.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;
using Milliseconds = SlowRankDetector::Milliseconds;
using Phase = SlowRank::Phase;

/// Minimum duration of a block, and waits of each rank in it. A step ends with a wait, so a long
/// step, save or evaluation is a single block.
constexpr Milliseconds kBlockTimeMin = 2s;
constexpr std::uint64_t kBlockWaitsMin = 2;
/// Blocks for a decision: at least 20 s and 20 waits. Under load a rank may be slow for 10 s.
constexpr std::size_t kBlocks = 10;
static_assert(kBlocks % 2 == 0);
/// Mean factor of a slow rank.
constexpr double kSlowFactor = 1.2;
/// Mean excess of a slow rank. Less does not matter, and is hardly measurable by the kernel's tick.
constexpr double kSlowExcess = 0.05;
/// Mean factor that a slow rank reaches in each two successive blocks, and a rank that has
/// recovered in none. One block may end in the middle of a step.
constexpr double kNormalFactor = 1.1;
/// After a longer time without samples, this process and perhaps the workers were suspended.
constexpr Milliseconds kSampleGap = 5s;
/// A main thread that runs less does not do the rank's work.
constexpr double kRunPartMin = 0.002;
/// Minimum work, which limits factors.
constexpr double kWorkMin = 0.001;
/// Waits beyond this multiple of a block's duration are those of several threads, or began before
/// it.
constexpr double kWaitsMax = 1.05;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

bool is_disturbed(const WorkerSample& worker) {
  return worker.is_traced || worker.state == 'T' || worker.state == 't';
}

double part_of(std::chrono::nanoseconds begin, std::chrono::nanoseconds end, Milliseconds time) {
  return std::clamp(seconds(end - begin) / seconds(time), 0.0, 1.0);
}

template <typename Iterator, typename Member>
double mean(Iterator begin, Iterator end, Member member) {
  double sum = 0;
  for (auto block = begin; block != end; ++block) sum += (*block).*member;
  return sum / static_cast<double>(end - begin);
}

}  // namespace

std::vector<SlowRank> SlowRankDetector::observe(Time now,
                                                const std::vector<WorkerSample>& workers) {
  const bool was_suspended = !last_sample_ || now - *last_sample_ > kSampleGap;
  last_sample_ = now;
  const bool have_all_waited = note_waits(workers);
  if (was_suspended || !are_same(workers) ||
      std::any_of(workers.begin(), workers.end(), is_disturbed)) {
    for (auto& [rank, history] : histories_) history.blocks.clear();
    restart(now, workers);
    return {};
  }
  if (!have_all_waited || !is_complete(now, workers)) return {};
  const auto time = std::chrono::duration_cast<Milliseconds>(now - begin_);
  std::vector<Block> blocks;
  blocks.reserve(workers.size());
  for (const auto& worker : workers) blocks.push_back(block_of(worker, time));
  const auto usual = usual_work(blocks);
  const bool is_alone = blocks.size() == 1;
  const double queued = is_alone ? 0 : lower_median(blocks, &Block::queued);
  const double slept = is_alone ? 0 : lower_median(blocks, &Block::slept);
  std::vector<SlowRank> findings;
  for (std::size_t i = 0; usual && i < workers.size(); ++i) {
    Block& block = blocks[i];
    block.excess = block.work - *usual;
    block.factor = block.work / *usual;
    block.usual_queued = queued;
    block.usual_slept = slept;
    History& history = histories_[workers[i].rank];
    history.blocks.push_back(block);
    if (history.blocks.size() > kBlocks) history.blocks.pop_front();
    if (const auto finding = judge(workers[i].rank, history)) findings.push_back(*finding);
  }
  restart(now, workers);
  return findings;
}

void SlowRankDetector::restart(Time now, const std::vector<WorkerSample>& workers) {
  begin_ = now;
  begin_samples_.clear();
  for (const auto& worker : workers) begin_samples_.emplace(worker.rank, worker);
}

/// Returns true if these are the workers of the beginning of the block, with sound counters.
bool SlowRankDetector::are_same(const std::vector<WorkerSample>& workers) const {
  return workers.size() == begin_samples_.size() &&
         std::all_of(workers.begin(), workers.end(), [this](const WorkerSample& worker) {
           const auto begin = begin_samples_.find(worker.rank);
           return begin != begin_samples_.end() && begin->second.pid == worker.pid &&
                  // Workers can write any number.
                  begin->second.activity.waits <= worker.activity.waits &&
                  begin->second.activity.waited <= worker.activity.waited;
         });
}

/// Returns true if each rank has ended a wait since the last sample. Then no rank is in a long one,
/// which would be counted at its end only.
bool SlowRankDetector::note_waits(const std::vector<WorkerSample>& workers) {
  bool have_all_waited = true;
  for (const auto& worker : workers) {
    auto& waits = waits_[worker.rank];
    if (std::exchange(waits, worker.activity.waits) == worker.activity.waits)
      have_all_waited = false;
  }
  return have_all_waited;
}

bool SlowRankDetector::is_complete(Time now, const std::vector<WorkerSample>& workers) const {
  if (workers.empty() || now - begin_ < kBlockTimeMin) return false;
  return std::all_of(workers.begin(), workers.end(), [&](const WorkerSample& worker) {
    const auto& begin = begin_samples_.at(worker.rank).activity;
    const auto waited = worker.activity.waited - begin.waited;
    return worker.activity.waits - begin.waits >= kBlockWaitsMin &&
           seconds(waited) <= kWaitsMax * seconds(now - begin_);
  });
}

SlowRankDetector::Block SlowRankDetector::block_of(const WorkerSample& worker,
                                                   Milliseconds time) const {
  const auto& begin = begin_samples_.at(worker.rank);
  const double waited = part_of(begin.activity.waited, worker.activity.waited, time);
  Block block{.time = time, .work = std::max(1 - waited, kWorkMin)};
  block.are_times_known =
      begin.main_time && worker.main_time && begin.queued_time && worker.queued_time;
  if (!block.are_times_known) return block;
  block.run = part_of(*begin.main_time, *worker.main_time, time);
  block.queued = part_of(*begin.queued_time, *worker.queued_time, time);
  block.slept = std::max(1 - waited - block.run - block.queued, 0.0);
  return block;
}

/// Returns the lower median of the run's ranks; nullopt if no other rank is known. Sets
/// work_share_.
std::optional<double> SlowRankDetector::usual_work(const std::vector<Block>& blocks) {
  const double own = lower_median(blocks, &Block::work);
  work_share_ = std::max(static_cast<int>(std::lround(1000 * own)), 1);
  if (other_ranks_ == 0) return blocks.size() > 1 ? std::optional(own) : std::nullopt;
  return run_share_ > 0 ? std::optional(run_share_ / 1000.0) : std::nullopt;
}

std::optional<SlowRank> SlowRankDetector::judge(int rank, History& history) {
  const auto& blocks = history.blocks;
  if (blocks.size() < kBlocks) return std::nullopt;
  const auto whole = [&blocks](double Block::*value) {
    return mean(blocks.begin(), blocks.end(), value);
  };
  std::vector<double> factors;
  for (auto pair = blocks.begin(); pair != blocks.end(); pair += 2)
    factors.push_back(mean(pair, pair + 2, &Block::factor));
  const auto [lowest, highest] = std::minmax_element(factors.begin(), factors.end());
  const double factor = whole(&Block::factor);
  const double excess = whole(&Block::excess);
  const bool becomes_slow = !history.is_slow && factor >= kSlowFactor && excess >= kSlowExcess &&
                            *lowest >= kNormalFactor;
  const bool recovers = history.is_slow && *highest < kNormalFactor;
  if (!becomes_slow && !recovers) return std::nullopt;
  history.is_slow = becomes_slow;
  SlowRank slow{.rank = rank, .is_slow = becomes_slow, .factor = factor};
  for (const auto& block : blocks) slow.time += block.time;
  const bool are_known = std::all_of(blocks.begin(), blocks.end(),
                                     [](const Block& block) { return block.are_times_known; });
  const double run = whole(&Block::run);
  if (!becomes_slow || !are_known || run < kRunPartMin) return slow;
  if (whole(&Block::queued) - whole(&Block::usual_queued) >= excess / 2) {
    slow.phase = Phase::queued;
    slow.part = whole(&Block::queued);
  } else if (whole(&Block::slept) - whole(&Block::usual_slept) >= excess / 2) {
    slow.phase = Phase::sleeps;
    slow.part = whole(&Block::slept);
  } else {
    slow.phase = Phase::computes;
    slow.part = run;
  }
  return slow;
}

}  // namespace ddprun
