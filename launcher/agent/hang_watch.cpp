#include "launcher/agent/hang_watch.hpp"

#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/waiting_code.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace ddprun {

namespace {

/// Returns ", waits in read of /data/a.bin, called by python3.11"; parts that are unknown are
/// missing.
std::string wait_text(const WorkerSample& worker) {
  const auto wait = main_thread_wait(worker.pid);
  const auto& call = wait.system_call.empty() ? wait.function : wait.system_call;
  if (call.empty()) return {};
  std::string text = ", waits in " + call;
  if (!wait.file.empty()) text += " of " + wait.file;
  const auto& code = worker.waiting_code;
  return text + (code.empty() ? "" : ", called by " + code.substr(code.rfind('/') + 1));
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

}  // namespace

HangWatch::HangWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
                     const HangDetector::Settings& settings, Listener listener)
    : executor_(executor),
      group_(group),
      detector_(settings),
      listener_(std::move(listener)),
      has_other_ranks_(settings.other_ranks > 0),
      timer_(executor) {
  start_timer();
}

void HangWatch::start_timer() {
  timer_.start(RunClock::now() + HangDetector::kPeriod, [this] { observe(); });
}

void HangWatch::observe() {
  auto workers = group_.sample(detector_.needs_details());
  add_waiting_code(workers);
  const auto late = [this] { return late_ranks(find_stalled_collectives(group_.flights())); };
  const auto finding = detector_.observe(RunClock::now(), workers, late);
  start_timer();
  note_wait(detector_.ranks_wait(workers));
  // Last, since the callback may destroy this object.
  if (finding && !is_stopped_) listener_.on_finding(*finding, describe_ranks(*finding, workers));
}

/// Inspects workers that sleep, once for each sleep and one group at a time, since a worker can
/// block the inspection without limit.
void HangWatch::add_waiting_code(std::vector<WorkerSample>& workers) {
  const auto inspected = std::make_shared<std::vector<WorkerSample>>();
  for (auto& worker : workers) {
    if (worker.activity.calls != 0 || worker.state != 'S' || !worker.run_time) continue;
    const auto same = std::find_if(inspected_.begin(), inspected_.end(), [&](const auto& each) {
      return each.pid == worker.pid && each.main_time == worker.main_time;
    });
    if (same != inspected_.end()) {
      worker.waiting_code = same->waiting_code;
    } else {
      inspected->push_back(worker);
    }
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
          for (auto& worker : *inspected) {
            std::erase_if(inspected_, [&](const auto& each) { return each.rank == worker.rank; });
            inspected_.push_back(std::move(worker));
          }
        });
  } catch (const std::exception&) {
    return;  // a later sample may find descriptors and memory again
  }
}

void HangWatch::note_wait(std::chrono::milliseconds time) {
  if (has_other_ranks_ && listener_.on_wait && std::exchange(wait_, time) != time)
    listener_.on_wait(time);
}

void HangWatch::stop() {
  is_stopped_ = true;
  timer_.cancel();
  note_wait(std::chrono::milliseconds(0));
}

}  // namespace ddprun
