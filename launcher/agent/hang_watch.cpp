#include "launcher/agent/hang_watch.hpp"

#include "launcher/process/kernel_wait.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun {

namespace {

/// Returns ", in read of /data/a.bin, waits in pipe_read"; parts that are unknown are missing.
std::string wait_text(const KernelWait& wait) {
  std::string text;
  if (!wait.file.empty()) text = ", in " + wait.system_call + " of " + wait.file;
  return text + (wait.function.empty() ? "" : ", waits in " + wait.function);
}

std::string describe_state(HangCondition condition, pid_t pid) {
  switch (condition) {
    case HangCondition::stopped:
      return "stopped by a signal (state T)";
    case HangCondition::idle:
      return "does not run" + wait_text(kernel_wait(pid));
    case HangCondition::terminal:
      return "does not run, and may wait for terminal input";
    case HangCondition::device:
      return describe(kernel_wait(pid));
    case HangCondition::busy:
      return "runs, but calls no collective";
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
      ranks.push_back({hung.rank, describe_state(hung.condition, worker->pid)});
  }
  return ranks;
}

}  // namespace

HangWatch::HangWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
                     const HangDetector::Settings& settings, OnFinding on_finding, Log log)
    : group_(group),
      detector_(settings),
      on_finding_(std::move(on_finding)),
      log_(std::move(log)),
      timer_(executor) {
  if (settings.timeout.mode == HangTimeout::Mode::fixed)
    warning_at_ = RunClock::now() + settings.timeout.time;
  start_timer();
}

void HangWatch::start_timer() {
  timer_.start(RunClock::now() + HangDetector::kPeriod, [this] { observe(); });
}

/// Users may expect that the timeout applies to every program.
void HangWatch::warn_without_calls(const std::vector<WorkerSample>& workers) {
  if (!warning_at_ || RunClock::now() < *warning_at_) return;
  warning_at_.reset();
  const auto has_calls = [](const WorkerSample& worker) { return worker.activity.calls != 0; };
  if (std::any_of(workers.begin(), workers.end(), has_calls)) return;
  write_log(
      log_, LogLevel::warn,
      "--hang_timeout: no worker has called a collective of the worker runtime yet; until then, "
      "only stopped workers are detected");
}

void HangWatch::observe() {
  const auto workers = group_.sample(detector_.needs_run_times());
  warn_without_calls(workers);
  const auto late = [this] { return late_ranks(find_stalled_collectives(group_.flights())); };
  const auto finding = detector_.observe(RunClock::now(), workers, late);
  start_timer();
  // Last, since the callback may stop the watch.
  if (finding) on_finding_(*finding, describe_ranks(*finding, workers));
}

}  // namespace ddprun
