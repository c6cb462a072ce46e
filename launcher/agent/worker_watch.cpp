#include "launcher/agent/worker_watch.hpp"

#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/tcp_connections.hpp"
#include "launcher/process/waiting_code.hpp"
#include "rendezvous/base/endpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <set>
#include <string>
#include <utility>

namespace ddprun {

namespace {

/// Returns ", waits in read of /data/a.bin, called by libtorch_cpu.so"; parts that are unknown are
/// missing, and the interpreter, which calls everything.
std::string wait_text(const WorkerSample& worker) {
  const auto wait = main_thread_wait(worker.pid);
  const auto& call = wait.system_call.empty() ? wait.function : wait.system_call;
  if (call.empty()) return {};
  std::string text = ", waits in " + call;
  if (!wait.file.empty()) text += " of " + wait.file;
  const auto code = worker.waiting_code.substr(worker.waiting_code.rfind('/') + 1);
  const bool is_interpreter = code.starts_with("python") || code.starts_with("libpython");
  return text + (code.empty() || is_interpreter ? "" : ", called by " + code);
}

std::string describe_state(HangCondition condition, const WorkerSample& worker) {
  switch (condition) {
    case HangCondition::stopped:
      return "stopped by a signal (state T)";
    case HangCondition::idle:
    case HangCondition::blocked:
      return "does not run" + wait_text(worker);
    case HangCondition::terminal:
      return "does not run, and may wait for terminal input";
    case HangCondition::device:
      return describe(kernel_wait(worker.pid));
    case HangCondition::busy:
      if (worker.activity.calls != 0) return "runs, but calls no collective";
      return worker.state == 'S' ? "runs at times" + wait_text(worker) : "uses CPU time";
    case HangCondition::in_collective:
      return "waits in a collective, like all ranks";
  }
  return {};
}

std::string percent_of_time(double part) {
  return std::to_string(std::lround(100 * part)) + " % of the time";
}

/// Returns an empty text if the phase is unknown.
std::string describe_phase(const SlowRank& slow, const WorkerSample& worker) {
  switch (slow.phase) {
    case SlowRank::Phase::unknown:
      return {};
    case SlowRank::Phase::computes:
      return "computes";
    case SlowRank::Phase::queued:
      return "waits for a CPU " + percent_of_time(slow.part);
    case SlowRank::Phase::sleeps:
      return "sleeps " + percent_of_time(slow.part) +
             (worker.activity.is_in_call ? "" : wait_text(worker));
  }
  return {};
}

std::vector<MissingRank> describe_ranks(const HangFinding& finding,
                                        const std::vector<WorkerSample>& workers) {
  std::vector<MissingRank> ranks;
  for (const auto& hung : finding.ranks) {
    const auto worker = std::find_if(workers.begin(), workers.end(),
                                     [&](const auto& sample) { return sample.rank == hung.rank; });
    if (worker != workers.end())
      ranks.push_back({hung.rank, describe_state(hung.condition, *worker)});
  }
  return ranks;
}

bool is_in_collective(const HungRank& rank) {
  return rank.condition == HangCondition::in_collective;
}

/// Returns the connections of the workers and their descendants that wait for acknowledgements.
std::vector<StalledConnection> stalled_connections(const std::vector<WorkerSample>& workers) {
  // A single packet may be lost at any time.
  const auto connections =
      tcp_connections([](const auto& one) { return one.retransmissions >= 2; }).list;
  std::vector<StalledConnection> stalled;
  if (connections.empty()) return stalled;
  for (const auto& worker : workers) {
    std::set<std::uint64_t> sockets;
    for (const pid_t pid : with_descendants(worker.pid, kProcessesMax))
      sockets.merge(sockets_of(pid));
    for (const auto& one : connections) {
      if (sockets.contains(one.inode))
        stalled.push_back({worker.rank, to_string(peer_of(one)), one.silence, one.retransmissions});
    }
  }
  return stalled;
}

}  // namespace

WorkerWatch::WorkerWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
                         const HangDetector::Settings& settings, Listener listener)
    : executor_(executor),
      group_(group),
      detector_(settings),
      slow_ranks_(settings.other_ranks),
      listener_(std::move(listener)),
      has_other_ranks_(settings.other_ranks > 0),
      timer_(executor) {
  start_timer();
}

void WorkerWatch::start_timer() {
  timer_.start(RunClock::now() + HangDetector::kPeriod, [this] { observe(); });
}

void WorkerWatch::observe() {
  auto workers = group_.sample(detector_.needs_details());
  add_waiting_code(workers);
  const auto late = [this] { return late_ranks(find_stalled_collectives(group_.flights())); };
  const auto finding = detector_.observe(RunClock::now(), workers, late);
  if (!finding) start_timer();
  report_slow_ranks(workers);
  note({.wait = detector_.ranks_wait(workers),
        .work_share = slow_ranks_.work_share(),
        .are_all_waiting = detector_.are_all_waiting()});
  // Last, since the callback may destroy this object.
  if (finding) find_connections(*finding, std::move(workers));
}

/// If no rank is late, a connection may be the cause. The next sample waits for the search, so that
/// findings are reported in their order.
void WorkerWatch::find_connections(const HangFinding& finding, std::vector<WorkerSample> workers) {
  auto ranks = describe_ranks(finding, workers);
  const bool may_be_cause =
      finding.kind != HangFinding::Kind::resumed &&
      std::all_of(finding.ranks.begin(), finding.ranks.end(), is_in_collective);
  if (!may_be_cause || is_stopped_) return report(finding, std::move(ranks), {});
  const auto found = std::make_shared<std::vector<StalledConnection>>();
  try {
    connection_search_ = std::make_unique<BackgroundSearch>(
        executor_, [found, workers = std::move(workers)] { *found = stalled_connections(workers); },
        [this, finding, ranks, found] { report(finding, ranks, std::move(*found)); });
  } catch (const std::exception&) {
    report(finding, std::move(ranks), {});
  }
}

void WorkerWatch::report(const HangFinding& finding, std::vector<MissingRank> ranks,
                         std::vector<StalledConnection> connections) {
  connection_search_.reset();
  if (is_stopped_) return;
  start_timer();
  listener_.on_finding(finding, std::move(ranks), std::move(connections));
}

/// Returns true if a capture of stacks has begun since the sample: it changes what a worker does.
bool WorkerWatch::is_captured_since(const WorkerSample& worker,
                                    const std::vector<WorkerSample>& current) {
  return std::any_of(current.begin(), current.end(), [&](const auto& each) {
    return each.rank == worker.rank && each.inspections != worker.inspections;
  });
}

/// Inspects workers that sleep, once for each sleep and one group at a time, since a worker can
/// block the inspection without limit.
void WorkerWatch::add_waiting_code(std::vector<WorkerSample>& workers) {
  const auto inspected = std::make_shared<std::vector<WorkerSample>>();
  for (auto& worker : workers) {
    if (worker.activity.calls != 0 || !worker.run_time) continue;
    const auto last = std::find_if(inspected_.begin(), inspected_.end(),
                                   [&](const auto& each) { return each.pid == worker.pid; });
    const bool is_known = last != inspected_.end();
    const bool is_asleep = worker.state == 'S';
    const bool is_same = is_known && is_asleep && last->main_time == worker.main_time;
    if (is_same) worker.waiting_code = last->waiting_code;
    if (is_asleep && !is_same && worker.inspections % 2 == 0) inspected->push_back(worker);
  }
  if (inspected->empty() || search_) return;
  try {
    search_ = std::make_unique<BackgroundSearch>(
        executor_,
        [inspected] {
          for (auto& worker : *inspected) worker.waiting_code = waiting_code(worker.pid);
        },
        [this, inspected] {
          search_.reset();
          const auto current = group_.sample(false);
          for (auto& worker : *inspected) {
            if (is_captured_since(worker, current)) continue;
            std::erase_if(inspected_, [&](const auto& each) { return each.rank == worker.rank; });
            inspected_.push_back(std::move(worker));
          }
        });
  } catch (const std::exception&) {
    return;  // a later sample may find descriptors and memory again
  }
}

void WorkerWatch::report_slow_ranks(const std::vector<WorkerSample>& workers) {
  for (const auto& slow : slow_ranks_.observe(RunClock::now(), workers)) {
    const auto worker = std::find_if(workers.begin(), workers.end(),
                                     [&](const auto& sample) { return sample.rank == slow.rank; });
    listener_.on_slow_rank(slow, describe_phase(slow, *worker));
  }
}

void WorkerWatch::set_others_activity(const membership::RankActivity& activity) {
  detector_.set_others_wait(activity.wait, activity.are_all_waiting);
  slow_ranks_.set_run_share(activity.work_share);
}

void WorkerWatch::note(const membership::RankActivity& activity) {
  if (has_other_ranks_ && listener_.on_activity && std::exchange(activity_, activity) != activity)
    listener_.on_activity(activity);
}

void WorkerWatch::stop() {
  is_stopped_ = true;
  timer_.cancel();
  note({});
}

}  // namespace ddprun
