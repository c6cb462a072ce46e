#include "launcher/agent/hang_detector.hpp"

#include "launcher/process/waiting_code.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace ddprun {

namespace {

using namespace std::chrono_literals;
using Milliseconds = HangDetector::Milliseconds;

/// Automatic limit for workers that are stopped by a signal: time to inspect one by hand.
constexpr Milliseconds kStoppedLimit = 5s;
/// Minimum automatic limit for idle ranks. Programs wait for files and services now and then.
constexpr Milliseconds kIdleLimitMin = 30s;
/// Minimum automatic limit for ranks that run, such as rank 0 in an evaluation, and for the first
/// steps, which may compile.
constexpr Milliseconds kBusyLimitMin = 300s;
/// Samples with progress before the waits of a run count as known.
constexpr int kWarmUpChanges = 20;
/// The same for programs whose collectives are unknown: their ranks also run while they start.
constexpr int kWarmUpRuns = 60;
/// CPU time of a main thread that sleeps, within a sample. A data loader checks its workers every
/// five seconds while it waits for them.
constexpr Milliseconds kSleepingTimeMax = 1ms;
/// Limit as a multiple of the longest wait that has ended.
constexpr int kUnusualFactor = 10;
/// Details are sampled in longer waits only.
constexpr Milliseconds kDetailsAfter = 3s;
/// After a longer time without samples, this process and perhaps the workers were suspended.
constexpr Milliseconds kSuspended = 5s;

bool is_in_call(const WorkerSample& worker) {
  return worker.activity.is_in_call;
}

bool has_called(const WorkerSample& worker) {
  return worker.activity.calls != 0;
}

bool is_worker_stopped(const WorkerSample& worker) {
  return worker.state == 'T';
}

/// Returns true if the rank does not run.
bool is_inactive(const HungRank& rank) {
  return rank.condition == HangCondition::stopped || rank.condition == HangCondition::idle;
}

bool is_among(const std::vector<HungRank>& ranks, int rank) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [rank](const HungRank& one) { return one.rank == rank; });
}

/// Returns true if `finding` adds to `open`, which has been reported.
bool is_news(const HangFinding& finding, const HangFinding& open) {
  if (finding.kind != HangFinding::Kind::certain) return false;
  return open.kind != HangFinding::Kind::certain ||
         std::any_of(finding.ranks.begin(), finding.ranks.end(),
                     [&open](const HungRank& rank) { return !is_among(open.ranks, rank.rank); });
}

}  // namespace

bool HangDetector::needs_details() const {
  return (is_fixed() && settings_.timeout.time < 4 * kDetailsAfter) || quiet_ >= kDetailsAfter;
}

std::optional<HangFinding> HangDetector::observe(Time now, const std::vector<WorkerSample>& workers,
                                                 const LateRanks& late_ranks) {
  has_details_ = needs_details();
  Milliseconds elapsed = elapsed_since_last(now);
  // A debugger may hold a worker, and so the others, for any time.
  const bool is_traced = std::any_of(workers.begin(), workers.end(),
                                     [](const WorkerSample& worker) { return worker.is_traced; });
  if (is_traced) elapsed = 0ms;
  others_wait_ = are_others_waiting_ ? others_wait_ + elapsed : 0ms;
  has_calls_ = has_calls_ || std::any_of(workers.begin(), workers.end(), has_called);
  note_processes(workers, elapsed);
  const bool has_progressed =
      has_calls_ ? note_calls(workers, elapsed) : note_shared_idle_time(workers);
  if (is_traced) return std::nullopt;
  if (open_) {
    open_->time += elapsed;
    if (has_ended(*open_, workers, has_progressed)) {
      open_->kind = HangFinding::Kind::resumed;
      return std::exchange(open_, std::nullopt);
    }
  }
  auto finding = find_stopped(workers);
  if (!finding && !open_) finding = find_late(workers, late_ranks);
  if (!finding || (open_ && !is_news(*finding, *open_))) return std::nullopt;
  open_ = finding;
  return finding;
}

/// Discards all times after a suspension.
Milliseconds HangDetector::elapsed_since_last(Time now) {
  const auto last = std::exchange(last_sample_, now);
  if (!last) return 0ms;
  const auto elapsed = std::chrono::duration_cast<Milliseconds>(now - *last);
  if (elapsed <= kSuspended) return std::max(elapsed, 0ms);
  histories_.clear();
  quiet_ = 0ms;
  others_wait_ = 0ms;
  return 0ms;
}

void HangDetector::note_processes(const std::vector<WorkerSample>& workers, Milliseconds elapsed) {
  // The run has been suspended by hand, and its workers may continue one after the other.
  const bool are_all_stopped =
      settings_.other_ranks == 0 && std::all_of(workers.begin(), workers.end(), is_worker_stopped);
  for (const auto& worker : workers) {
    History& history = histories_[worker.rank];
    const bool has_run = worker.run_time != history.run_time;
    history.idle = is_idle(worker, history) ? history.idle + elapsed : 0ms;
    history.pid = worker.pid;
    history.main_time = worker.main_time;
    history.run_time = worker.run_time;
    if (!is_worker_stopped(worker)) {
      history.stopped.reset();
    } else {
      // Tools that limit the CPU share stop and continue a process many times a second.
      const bool begins = !history.stopped || has_run || are_all_stopped;
      history.stopped = begins ? 0ms : *history.stopped + elapsed;
    }
  }
}

/// Compares the worker with its last sample. In a program without calls only the main thread shows
/// a wait: other threads of the libraries poll or log all the time.
bool HangDetector::is_idle(const WorkerSample& worker, const History& history) const {
  if (worker.state != 'S' && (has_calls_ || worker.state != 'D')) return false;
  if (has_calls_) return worker.run_time && worker.run_time == history.run_time;
  if (!worker.main_time || !history.main_time || worker.pid != history.pid) return false;
  // Less if a child has ended.
  return std::chrono::abs(*worker.main_time - *history.main_time) < kSleepingTimeMax;
}

/// Returns true if a call has started or ended.
bool HangDetector::note_calls(const std::vector<WorkerSample>& workers, Milliseconds elapsed) {
  std::uint64_t calls = 0;
  for (const auto& worker : workers) calls += worker.activity.calls;
  const bool has_progressed = calls != std::exchange(calls_, calls);
  if (has_progressed) {
    ++changes_;
    end_wait(std::exchange(quiet_, 0ms));
    return true;
  }
  // Without waiting ranks all may compute, which only a limit set by the user forbids.
  const bool is_waiting =
      are_others_waiting_ || std::any_of(workers.begin(), workers.end(), is_in_call);
  quiet_ = is_waiting || (is_fixed() && calls != 0) ? quiet_ + elapsed : 0ms;
  return false;
}

/// Returns true if ranks that have waited run again.
bool HangDetector::note_shared_idle_time(const std::vector<WorkerSample>& workers) {
  if (workers.empty()) return false;
  std::vector<Milliseconds> times;
  for (const auto& worker : workers) times.push_back(histories_.at(worker.rank).idle);
  // At least half of the ranks have been idle for as long.
  const auto median = times.begin() + (static_cast<std::ptrdiff_t>(times.size()) - 1) / 2;
  std::nth_element(times.begin(), median, times.end(), std::greater<>());
  const Milliseconds wait = std::exchange(quiet_, std::max(*median, others_wait_));
  if (quiet_ == 0ms) ++changes_;
  if (quiet_ >= wait) return false;
  end_wait(wait);
  return true;
}

void HangDetector::end_wait(Milliseconds wait) {
  if (are_waits_known()) longest_quiet_ = std::max(longest_quiet_, wait);
}

bool HangDetector::has_ended(const HangFinding& finding, const std::vector<WorkerSample>& workers,
                             bool has_progressed) const {
  const auto& ranks = finding.ranks;
  const bool are_stopped =
      !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [](const HungRank& rank) {
        return rank.condition == HangCondition::stopped;
      });
  if (!are_stopped) return has_progressed;
  return std::none_of(workers.begin(), workers.end(), [&ranks](const WorkerSample& worker) {
    return is_worker_stopped(worker) && is_among(ranks, worker.rank);
  });
}

std::optional<HangFinding> HangDetector::find_stopped(
    const std::vector<WorkerSample>& workers) const {
  HangFinding finding{.kind = HangFinding::Kind::certain};
  for (const auto& worker : workers) {
    const auto stopped = histories_.at(worker.rank).stopped;
    if (!stopped || *stopped < (is_fixed() ? settings_.timeout.time : kStoppedLimit)) continue;
    finding.ranks.push_back({worker.rank, HangCondition::stopped});
    finding.time = std::max(finding.time, *stopped);
  }
  return finding.ranks.empty() ? std::nullopt : std::optional(finding);
}

std::optional<HangFinding> HangDetector::find_late(const std::vector<WorkerSample>& workers,
                                                   const LateRanks& late_ranks) const {
  if (quiet_ < limit(true) || !has_details_) return std::nullopt;
  HangFinding finding{
      .time = quiet_,
      .ranks = has_calls_ ? late_in_calls(workers, late_ranks) : late_by_processes(workers)};
  const auto& ranks = finding.ranks;
  // Programs without calls may sleep for any reason, such as a server without requests.
  if (!is_fixed() && !has_calls_ && (ranks.empty() || !are_waits_known())) return std::nullopt;
  const bool are_inactive = !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), is_inactive);
  const Milliseconds time = are_inactive && !is_fixed() ? inactive_time(ranks) : quiet_;
  if (time < limit(are_inactive)) return std::nullopt;
  const bool may_wait_for_user = is_among(ranks, settings_.terminal_rank);
  if (is_fixed() && !ranks.empty() && !may_wait_for_user) finding.kind = HangFinding::Kind::certain;
  return finding;
}

std::vector<HungRank> HangDetector::late_in_calls(const std::vector<WorkerSample>& workers,
                                                  const LateRanks& late_ranks) const {
  const auto late = late_ranks();
  const bool is_any_waiting = std::any_of(workers.begin(), workers.end(), is_in_call);
  std::vector<HungRank> ranks;
  for (const auto& worker : workers) {
    const bool is_late = std::find(late.begin(), late.end(), worker.rank) != late.end();
    if (is_in_call(worker) || (is_any_waiting && !is_late)) continue;
    ranks.push_back({worker.rank, condition_of(worker)});
  }
  return ranks;
}

/// Returns the ranks that do not sleep. If all sleep, returns those that do not wait for other
/// ranks.
std::vector<HungRank> HangDetector::late_by_processes(
    const std::vector<WorkerSample>& workers) const {
  std::vector<HungRank> active, outside_collectives, with_cause, with_peer, all;
  for (const auto& worker : workers) {
    const HungRank rank{worker.rank, condition_of(worker)};
    const bool is_asleep =
        rank.condition == HangCondition::idle || rank.condition == HangCondition::terminal;
    if (!is_asleep) active.push_back(rank);
    all.push_back(rank);
    if (is_collective_library(worker.waiting_code)) continue;
    if (!worker.waiting_code.empty()) outside_collectives.push_back(rank);
    if (worker.wait_cause == WaitCause::other) with_cause.push_back(rank);
    if (worker.wait_cause == WaitCause::peer) with_peer.push_back(rank);
  }
  if (!active.empty()) return active;
  const auto are_some = [this, &all](const std::vector<HungRank>& ranks) {
    return !ranks.empty() && (are_others_waiting_ || ranks.size() < all.size());
  };
  // By default not those that wait for a lock or a peer, as servers wait for their clients.
  if (!is_fixed()) return are_some(with_cause) ? with_cause : std::vector<HungRank>();
  for (const auto* ranks : {&outside_collectives, &with_cause, &with_peer}) {
    if (are_some(*ranks)) return *ranks;
  }
  // The cause may be on another node.
  return settings_.other_ranks == 0 ? all : std::vector<HungRank>();
}

bool HangDetector::are_ranks_waiting(const std::vector<WorkerSample>& workers) const {
  if (quiet_ < kDetailsAfter) return false;
  return std::any_of(workers.begin(), workers.end(), [this](const WorkerSample& worker) {
    if (has_calls_) return is_in_call(worker);
    return is_collective_library(worker.waiting_code) &&
           histories_.at(worker.rank).idle >= kDetailsAfter;
  });
}

HangCondition HangDetector::condition_of(const WorkerSample& worker) const {
  if (is_worker_stopped(worker)) return HangCondition::stopped;
  if (worker.state == 'D') return HangCondition::device;
  // The first sample of run times ends the idle time.
  if (2 * histories_.at(worker.rank).idle < quiet_) return HangCondition::busy;
  return worker.rank == settings_.terminal_rank ? HangCondition::terminal : HangCondition::idle;
}

/// Returns for how long none of the ranks has run during the wait.
Milliseconds HangDetector::inactive_time(const std::vector<HungRank>& ranks) const {
  Milliseconds time = quiet_;
  for (const auto& rank : ranks) {
    const History& history = histories_.at(rank.rank);
    time = std::min(time, std::max(history.idle, history.stopped.value_or(0ms)));
  }
  return time;
}

/// Returns true if the run has had its first, longer waits.
bool HangDetector::are_waits_known() const {
  return changes_ > (has_calls_ ? kWarmUpChanges : kWarmUpRuns);
}

Milliseconds HangDetector::limit(bool are_inactive) const {
  if (is_fixed()) return settings_.timeout.time;
  return std::max(are_inactive && are_waits_known() ? kIdleLimitMin : kBusyLimitMin,
                  kUnusualFactor * longest_quiet_);
}

}  // namespace ddprun
