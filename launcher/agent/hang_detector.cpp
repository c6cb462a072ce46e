#include "launcher/agent/hang_detector.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;
using Milliseconds = HangDetector::Milliseconds;

/// Automatic limit for workers that are stopped by a signal: time to inspect one by hand.
constexpr Milliseconds kStoppedLimit = 5s;
/// Minimum automatic limit for idle ranks. Programs wait for files and services now and then.
constexpr Milliseconds kIdleLimitMin = 30s;
/// Minimum automatic limit for ranks that work, such as rank 0 in an evaluation, and for the first
/// steps, which may compile.
constexpr Milliseconds kBusyLimitMin = 300s;
/// Samples with progress before the waits of a run count as known.
constexpr int kWarmUpChanges = 20;
/// Limit as a multiple of the longest wait that has ended.
constexpr int kUnusualFactor = 10;
/// An idle rank is certain to hang at this multiple of the limit. It may wait for a service.
constexpr int kCertainFactor = 4;
/// Run times are sampled in longer waits only.
constexpr Milliseconds kRunTimesAfter = 3s;

bool is_in_call(const WorkerSample& worker) {
  return worker.activity.is_in_call;
}

bool is_traced(const WorkerSample& worker) {
  return worker.state == 't';
}

/// Returns true if the rank will not continue by itself.
bool is_inactive(const HungRank& rank) {
  return rank.condition == HangCondition::stopped || rank.condition == HangCondition::idle;
}

}  // namespace

bool HangDetector::needs_run_times() const {
  const bool is_short = settings_.timeout.mode == HangTimeout::Mode::fixed &&
                        settings_.timeout.time < 4 * kRunTimesAfter;
  return is_short || quiet_ >= kRunTimesAfter;
}

std::optional<HangFinding> HangDetector::observe(Time now, const std::vector<WorkerSample>& workers,
                                                 const LateRanks& late_ranks) {
  const Milliseconds elapsed = elapsed_since_last(now);
  note_processes(workers, elapsed);
  const bool has_progressed = note_calls(workers, elapsed);
  // A debugger may hold a worker, and so the others, for any time.
  if (std::any_of(workers.begin(), workers.end(), is_traced)) {
    quiet_ = 0ms;
    return std::nullopt;
  }
  if (open_) {
    open_->time += elapsed;
    if (has_ended(*open_, has_progressed)) {
      open_->kind = HangFinding::Kind::resumed;
      return std::exchange(open_, std::nullopt);
    }
    if (open_->kind == HangFinding::Kind::certain) return std::nullopt;
  }
  auto finding = find(workers, late_ranks);
  if (!finding || (open_ && open_->kind == finding->kind)) return std::nullopt;
  open_ = finding;
  return finding;
}

/// Returns at most two periods: a longer time means that this process, and perhaps the whole
/// machine, was suspended.
Milliseconds HangDetector::elapsed_since_last(Time now) {
  const auto last = std::exchange(last_sample_, now);
  if (!last) return 0ms;
  return std::clamp(std::chrono::duration_cast<Milliseconds>(now - *last), 0ms, 2 * kPeriod);
}

void HangDetector::note_processes(const std::vector<WorkerSample>& workers, Milliseconds elapsed) {
  for (const auto& worker : workers) {
    History& history = histories_[worker.rank];
    const bool has_run =
        !worker.run_time || !history.run_time || worker.run_time != history.run_time;
    history.run_time = worker.run_time;
    const bool is_idle = worker.state == 'S' && !has_run;
    history.idle = is_idle ? history.idle + elapsed : 0ms;
    if (worker.state == 'T') {
      history.stopped = history.stopped ? *history.stopped + elapsed : 0ms;
    } else {
      history.stopped.reset();
    }
  }
}

/// Returns true if a call has started or ended.
bool HangDetector::note_calls(const std::vector<WorkerSample>& workers, Milliseconds elapsed) {
  std::uint64_t calls = 0;
  for (const auto& worker : workers) calls += worker.activity.calls;
  const bool has_progressed = calls != std::exchange(calls_, calls);
  if (has_progressed) {
    ++changes_;
    longest_quiet_ = std::max(longest_quiet_, std::exchange(quiet_, 0ms));
    return true;
  }
  // Without waiting ranks all may compute, which only a limit set by the user forbids.
  const bool is_waiting = std::any_of(workers.begin(), workers.end(), is_in_call);
  const bool counts =
      is_waiting || (settings_.timeout.mode == HangTimeout::Mode::fixed && calls != 0);
  quiet_ = counts ? quiet_ + elapsed : 0ms;
  return false;
}

bool HangDetector::has_ended(const HangFinding& finding, bool has_progressed) const {
  const auto is_stopped = [](const HungRank& rank) {
    return rank.condition == HangCondition::stopped;
  };
  const auto& ranks = finding.ranks;
  if (ranks.empty() || !std::all_of(ranks.begin(), ranks.end(), is_stopped)) return has_progressed;
  return std::all_of(ranks.begin(), ranks.end(),
                     [this](const HungRank& rank) { return !histories_.at(rank.rank).stopped; });
}

std::optional<HangFinding> HangDetector::find(const std::vector<WorkerSample>& workers,
                                              const LateRanks& late_ranks) const {
  using Kind = HangFinding::Kind;
  if (auto stopped = find_stopped(workers)) return stopped;
  const bool is_fixed = settings_.timeout.mode == HangTimeout::Mode::fixed;
  if (quiet_ < (is_fixed ? settings_.timeout.time : kIdleLimitMin)) return std::nullopt;
  auto ranks = suspects(workers, late_ranks);
  const bool are_inactive = !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), is_inactive);
  const Milliseconds time = are_inactive && !is_fixed ? inactive_time(ranks) : quiet_;
  const Milliseconds needed = limit(are_inactive);
  if (time < needed) return std::nullopt;
  const bool is_certain =
      !ranks.empty() && (is_fixed || (are_inactive && time >= kCertainFactor * needed));
  return HangFinding{.kind = is_certain ? Kind::certain : Kind::suspected,
                     .time = quiet_,
                     .ranks = std::move(ranks)};
}

/// A run whose workers are all stopped has been suspended by hand.
std::optional<HangFinding> HangDetector::find_stopped(
    const std::vector<WorkerSample>& workers) const {
  const bool is_fixed = settings_.timeout.mode == HangTimeout::Mode::fixed;
  HangFinding finding{.kind = HangFinding::Kind::certain};
  for (const auto& worker : workers) {
    const auto stopped = histories_.at(worker.rank).stopped;
    if (!stopped || *stopped < (is_fixed ? settings_.timeout.time : kStoppedLimit)) continue;
    finding.ranks.push_back({worker.rank, HangCondition::stopped});
    finding.time = std::max(finding.time, *stopped);
  }
  const bool are_all = finding.ranks.size() == static_cast<std::size_t>(settings_.world_size);
  return finding.ranks.empty() || are_all ? std::nullopt : std::optional(finding);
}

std::vector<HungRank> HangDetector::suspects(const std::vector<WorkerSample>& workers,
                                             const LateRanks& late_ranks) const {
  const auto late = late_ranks();
  const bool is_anyone_waiting = std::any_of(workers.begin(), workers.end(), is_in_call);
  std::vector<HungRank> ranks;
  for (const auto& worker : workers) {
    const bool is_late = std::find(late.begin(), late.end(), worker.rank) != late.end();
    if (is_in_call(worker) || (is_anyone_waiting && !is_late)) continue;
    ranks.push_back({worker.rank, condition_of(worker)});
  }
  return ranks;
}

HangCondition HangDetector::condition_of(const WorkerSample& worker) const {
  if (worker.state == 'T') return HangCondition::stopped;
  if (worker.state == 'D') return HangCondition::device;
  // The first sample of run times, and taking stacks, end the idle time.
  if (2 * histories_.at(worker.rank).idle < quiet_) return HangCondition::busy;
  return worker.rank == settings_.terminal_rank ? HangCondition::terminal : HangCondition::idle;
}

/// Returns for how long none of the ranks has done anything during the wait.
Milliseconds HangDetector::inactive_time(const std::vector<HungRank>& ranks) const {
  Milliseconds time = quiet_;
  for (const auto& rank : ranks) {
    const History& history = histories_.at(rank.rank);
    time = std::min(time, std::max(history.idle, history.stopped.value_or(0ms)));
  }
  return time;
}

Milliseconds HangDetector::limit(bool are_inactive) const {
  if (settings_.timeout.mode == HangTimeout::Mode::fixed) return settings_.timeout.time;
  const bool are_waits_known = changes_ >= kWarmUpChanges;
  return std::max(are_inactive && are_waits_known ? kIdleLimitMin : kBusyLimitMin,
                  kUnusualFactor * longest_quiet_);
}

}  // namespace ddprun
