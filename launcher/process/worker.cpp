#include "launcher/process/worker.hpp"

#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/proc_scan.hpp"

#include <algorithm>
#include <csignal>
#include <string>

namespace ddprun {

WorkerExited Worker::exited(const ProcessExit& exit) const {
  WorkerExited exited;
  exited.rank = spec.rank;
  exited.local_rank = spec.local_rank;
  exited.pid = process.pid();
  exited.exit_code = exit.exit_code;
  exited.signal = exit.signal;
  exited.was_stopped = was_stopped;
  exited.peak_memory_bytes = exit.peak_memory_bytes;
  exited.ran_seconds = seconds_since_start();
  exited.ended_at = std::chrono::system_clock::now();
  return exited;
}

std::string Worker::damage_text(const ProcessExit& exit) const {
  if (!damage) return "";
  return "memory shared with ddprun: the part of this worker was overwritten (" + *damage +
         "); other memory of it may be damaged, too" +
         (exit.signal == SIGKILL ? ", so ddprun killed it" : "");
}

void Worker::kill() {
  if (!killed_at) killed_at = Clock::now();
  process.signal_group(SIGKILL);
}

std::string Worker::still_running() const {
  const auto now = Clock::now();
  const pid_t pid = process.pid();
  return after_sigkill(now - killed_at.value_or(now)) + ": " +
         (is_zombie(pid) ? "the process that traces it has not released it"
                         : describe(kernel_wait(pid)));
}

std::string Worker::warning() const {
  return "rank " + std::to_string(spec.rank) + " (pid " + std::to_string(process.pid()) +
         ") is still running " + still_running();
}

bool Worker::is_stuck_in_kernel() const {
  return hang && killed_at && is_uninterruptible(process.pid());
}

bool has_any_hung(const Workers& workers) {
  return std::any_of(workers.begin(), workers.end(),
                     [](const auto& worker) { return worker->hang.has_value(); });
}

bool all_remaining(const Workers& workers, bool (Worker::*condition)() const) {
  return std::all_of(workers.begin(), workers.end(), [condition](const auto& worker) {
    return worker->has_ended || ((*worker).*condition)();
  });
}

}  // namespace ddprun
