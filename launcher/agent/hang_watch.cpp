#include "launcher/agent/hang_watch.hpp"

#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/waiting_code.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun {

namespace {

/// Returns ", waits in read of /data/a.bin, called by python3.11"; parts that are unknown are
/// missing.
std::string wait_text(const WorkerSample& worker) {
  const auto wait = kernel_wait(worker.pid);
  const auto& call = wait.system_call.empty() ? wait.function : wait.system_call;
  if (call.empty()) return {};
  std::string text = ", waits in " + call;
  if (!wait.file.empty()) text += " of " + wait.file;
  const auto code = waiting_code(worker.pid);
  return text + (code.empty() ? "" : ", called by " + code.substr(code.rfind('/') + 1));
}

std::string describe_state(HangCondition condition, const WorkerSample& worker) {
  switch (condition) {
    case HangCondition::stopped:
      return "stopped by a signal (state T)";
    case HangCondition::idle:
      return "does not run" + wait_text(worker);
    case HangCondition::terminal:
      return "does not run, and may wait for terminal input";
    case HangCondition::device:
      return describe(kernel_wait(worker.pid));
    case HangCondition::busy:
      return worker.activity.calls != 0 ? "runs, but calls no collective" : "uses CPU time";
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
    : group_(group),
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
  const auto workers = group_.sample(detector_.needs_details());
  const auto late = [this] { return late_ranks(find_stalled_collectives(group_.flights())); };
  const auto finding = detector_.observe(RunClock::now(), workers, late);
  start_timer();
  note_wait(detector_.are_ranks_waiting(workers));
  // Last, since the callback may stop the watch.
  if (finding) listener_.on_finding(*finding, describe_ranks(*finding, workers));
}

void HangWatch::note_wait(bool are_waiting) {
  if (has_other_ranks_ && std::exchange(are_waiting_, are_waiting) != are_waiting)
    listener_.on_wait(are_waiting);
}

void HangWatch::stop() {
  timer_.cancel();
  note_wait(false);
}

}  // namespace ddprun
