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

/// Samples after a capture of stacks in which a worker may run because of it.
constexpr int kExcusedSamples = 2;
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
/// Programs whose threads and descendants use more than this part of a CPU work, although their
/// main threads sleep: without calls, and with calls of the worker runtime. Gloo's and NCCL's
/// threads poll.
constexpr int kWorkingParts = 10;
constexpr int kWorkingPartsWithCalls = 100;
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

/// Tools for stacks trace a worker, too, during an inspection.
bool is_in_debugger(const WorkerSample& worker) {
  return worker.is_traced && worker.inspections % 2 == 0;
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
  // A debugger may hold a worker, and so the others, for any time. During a capture of stacks the
  // time continues: other nodes would take a shorter wait for progress.
  const bool is_traced = std::any_of(workers.begin(), workers.end(), is_in_debugger);
  if (is_traced) elapsed = 0ms;
  if (!has_calls_ && std::any_of(workers.begin(), workers.end(), has_called)) note_first_call();
  note_processes(workers, elapsed);
  bool has_progressed = note_heartbeats(workers, elapsed);
  if (has_calls_) {
    has_progressed = note_calls(workers, elapsed);
  } else if (heartbeats_ == 0) {
    has_progressed = note_shared_idle_time(workers);
  }
  note_common_wait(workers, elapsed);
  if (is_traced) return std::nullopt;
  if (open_) {
    open_->time += elapsed;
    if (has_ended(*open_, workers, has_progressed)) {
      open_->kind = HangFinding::Kind::resumed;
      return std::exchange(open_, std::nullopt);
    }
  }
  auto finding = find_stopped(workers);
  const bool is_certain = open_ && open_->kind == HangFinding::Kind::certain;
  if (!finding && !is_certain) finding = find_late(workers, late_ranks);
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
  return 0ms;
}

/// The start of the program does not show how long its collectives wait.
void HangDetector::note_first_call() {
  has_calls_ = true;
  changes_ = 0;
  quiet_ = longest_quiet_ = 0ms;
}

void HangDetector::note_processes(const std::vector<WorkerSample>& workers, Milliseconds elapsed) {
  // The run has been suspended by hand, and its workers may continue one after the other.
  const bool are_all_stopped =
      settings_.other_ranks == 0 && std::all_of(workers.begin(), workers.end(), is_worker_stopped);
  for (const auto& worker : workers) {
    History& history = histories_[worker.rank];
    const bool has_run = worker.run_time != history.run_time;
    // Tools for stacks interrupt the waits of workers, which then run for a moment.
    const bool is_inspected =
        worker.inspections != history.inspections || worker.inspections % 2 != 0;
    // On a busy machine they do so some time later.
    history.excused = is_inspected ? kExcusedSamples : std::max(0, history.excused - 1);
    const bool is_excused = is_inspected || history.excused > 0;
    const bool remains_idle = is_excused ? history.idle > 0ms : is_idle(worker, history, elapsed);
    // A worker that has not run waits where it did, even if its code could not be read.
    if (!worker.waiting_code.empty()) {
      history.is_in_collective = is_collective_library(worker.waiting_code);
    } else if (!remains_idle || worker.state == 'D') {
      history.is_in_collective = false;
    }
    history.idle = remains_idle ? history.idle + elapsed : 0ms;
    history.awake = is_asleep(worker) ? 0ms : history.awake + elapsed;
    history.pid = worker.pid;
    history.inspections = worker.inspections;
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

/// Compares the worker with its last sample. The main thread shows a wait, unless another thread or
/// a descendant does the work.
bool HangDetector::is_idle(const WorkerSample& worker, const History& history,
                           Milliseconds elapsed) const {
  if (worker.pid != history.pid) return false;
  const bool has_slept = worker.main_time && worker.main_time == history.main_time;
  if (has_calls_) {
    if (worker.state != 'S' || !worker.run_time || !history.run_time) return false;
    const auto run = *worker.run_time - *history.run_time;
    return run == 0ns || (has_slept && run <= elapsed / kWorkingPartsWithCalls);
  }
  if (worker.state != 'S' && worker.state != 'D') return false;
  if (!has_slept) return false;
  if (!worker.run_time || !history.run_time) return true;
  return *worker.run_time - *history.run_time <= elapsed / kWorkingParts;
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
      others_wait_ > 0ms || std::any_of(workers.begin(), workers.end(), is_in_call);
  if (is_waiting || (is_fixed() && calls != 0)) {
    quiet_ += elapsed;
  } else {
    end_wait(std::exchange(quiet_, 0ms));
  }
  return false;
}

/// Returns true if a rank has called heartbeat(). Without collectives of the worker runtime, this
/// alone counts as progress from the first call on.
bool HangDetector::note_heartbeats(const std::vector<WorkerSample>& workers, Milliseconds elapsed) {
  std::uint64_t heartbeats = 0;
  for (const auto& worker : workers) heartbeats += worker.activity.heartbeats;
  const auto before = std::exchange(heartbeats_, heartbeats);
  if (has_calls_ || heartbeats == 0) return false;
  if (before == 0) {
    changes_ = 0;
    quiet_ = longest_quiet_ = 0ms;
  }
  if (before == heartbeats) {
    quiet_ += elapsed;
    return false;
  }
  ++changes_;
  end_wait(std::exchange(quiet_, 0ms));
  return true;
}

/// Returns true if ranks that have waited run again.
bool HangDetector::note_shared_idle_time(const std::vector<WorkerSample>& workers) {
  if (workers.empty()) return false;
  std::vector<Milliseconds> times;
  times.reserve(workers.size());
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

void HangDetector::note_common_wait(const std::vector<WorkerSample>& workers,
                                    Milliseconds elapsed) {
  const auto waits = [this](const WorkerSample& worker) {
    if (is_in_debugger(worker) || is_worker_stopped(worker) || worker.state == 'D') return false;
    if (has_calls_) return is_in_call(worker) && quiet_ >= kDetailsAfter;
    const History& history = histories_.at(worker.rank);
    return history.idle >= kDetailsAfter && history.is_in_collective;
  };
  are_all_waiting_ = !workers.empty() && std::all_of(workers.begin(), workers.end(), waits);
  if (settings_.other_ranks == 0) {
    common_wait_ = are_all_waiting_ ? quiet_ : 0ms;
  } else {
    common_wait_ = are_all_waiting_ && are_others_waiting_ ? common_wait_ + elapsed : 0ms;
  }
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
  const auto is_back = [this](const auto& worker) { return has_just_resumed(worker); };
  if (!has_calls_ && std::any_of(workers.begin(), workers.end(), is_back)) return std::nullopt;
  HangFinding finding{.time = quiet_};
  auto& ranks = finding.ranks;
  // All ranks have waited for some seconds when the common wait begins.
  if (is_fixed() && common_wait_ > 0ms && common_wait_ + kDetailsAfter >= limit(true)) {
    for (const auto& worker : workers) ranks.push_back({worker.rank, HangCondition::in_collective});
  } else {
    ranks = has_calls_ ? late_in_calls(workers, late_ranks) : late_by_processes(workers);
  }
  // Programs without calls may sleep for any reason, such as a server without requests.
  const bool may_sleep_by_design = !has_calls_ && heartbeats_ == 0;
  if (!is_fixed() && may_sleep_by_design && (ranks.empty() || !are_waits_known()))
    return std::nullopt;
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

/// Returns the ranks that are late while others wait in a collective. If no rank is known to wait,
/// returns those whose waits differ, or all ranks of the run if that is not known either.
std::vector<HungRank> HangDetector::late_by_processes(
    const std::vector<WorkerSample>& workers) const {
  std::vector<HungRank> all, stopped, late, with_cause;
  bool is_any_waiting = others_wait_ > 0ms;
  bool is_any_active = false;
  for (const auto& worker : workers) {
    if (!worker.main_time) continue;
    const HungRank rank{worker.rank, condition_of(worker)};
    all.push_back(rank);
    if (rank.condition == HangCondition::stopped) {
      stopped.push_back(rank);
    } else if (!is_asleep(worker)) {
      is_any_active = true;
      late.push_back(rank);
    } else if (histories_.at(worker.rank).is_in_collective) {
      is_any_waiting = true;
    } else {
      const bool is_device = rank.condition == HangCondition::device;
      if (is_device || !worker.waiting_code.empty()) late.push_back(rank);
      if (worker.wait_cause == WaitCause::other) with_cause.push_back(rank);
    }
  }
  if (!stopped.empty()) return stopped;
  if (is_any_waiting && !late.empty()) return late;
  const bool do_some_differ = !with_cause.empty() && with_cause.size() < all.size();
  if (!is_any_waiting && !is_any_active && do_some_differ) return with_cause;
  // The cause may be on another node, unless the ranks of this node are not known to wait either
  // and have not called heartbeat() in time. By default programs may sleep for any reason.
  const bool is_cause_here = settings_.other_ranks == 0 || (heartbeats_ > 0 && !is_any_waiting);
  return is_fixed() && is_cause_here ? all : std::vector<HungRank>();
}

Milliseconds HangDetector::ranks_wait(const std::vector<WorkerSample>& workers) const {
  if (has_calls_) {
    const bool is_waiting = std::any_of(workers.begin(), workers.end(), is_in_call);
    return is_waiting && quiet_ >= kDetailsAfter ? quiet_ : 0ms;
  }
  Milliseconds longest{0};
  for (const auto& worker : workers) {
    const History& history = histories_.at(worker.rank);
    if (history.idle >= kDetailsAfter && history.is_in_collective)
      longest = std::max(longest, history.idle);
  }
  return longest;
}

/// Returns true if the main thread of a program without calls has slept for some seconds.
bool HangDetector::is_asleep(const WorkerSample& worker) const {
  const Milliseconds time =
      is_fixed() ? std::min(settings_.timeout.time / 2, kDetailsAfter) : kDetailsAfter;
  return histories_.at(worker.rank).idle >= time;
}

/// Returns true if the rank has slept, perhaps in the same collective as the others, and has not
/// run for long enough since.
bool HangDetector::has_just_resumed(const WorkerSample& worker) const {
  return worker.main_time && !is_asleep(worker) && !is_worker_stopped(worker) &&
         histories_.at(worker.rank).awake < limit(false);
}

HangCondition HangDetector::condition_of(const WorkerSample& worker) const {
  if (is_worker_stopped(worker)) return HangCondition::stopped;
  if (worker.state == 'D' && (has_calls_ || is_asleep(worker))) return HangCondition::device;
  // With calls, the first sample of run times ends the idle time.
  const bool is_busy =
      has_calls_ ? 2 * histories_.at(worker.rank).idle < quiet_ : !is_asleep(worker);
  if (is_busy) return HangCondition::busy;
  if (worker.rank == settings_.terminal_rank) return HangCondition::terminal;
  const bool is_blocked =
      worker.wait_cause == WaitCause::lock || worker.wait_cause == WaitCause::peer;
  return is_blocked ? HangCondition::blocked : HangCondition::idle;
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
  return changes_ > (has_calls_ || heartbeats_ > 0 ? kWarmUpChanges : kWarmUpRuns);
}

Milliseconds HangDetector::limit(bool are_inactive) const {
  if (is_fixed()) return settings_.timeout.time;
  return std::max(are_inactive && are_waits_known() ? kIdleLimitMin : kBusyLimitMin,
                  kUnusualFactor * longest_quiet_);
}

}  // namespace ddprun
