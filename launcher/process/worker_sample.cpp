#include "launcher/process/worker_sample.hpp"

#include "launcher/process/proc_scan.hpp"
#include "launcher/process/worker.hpp"

#include <vector>

namespace ddprun {

namespace {

std::optional<std::chrono::nanoseconds> run_time_with_descendants(pid_t pid) {
  std::chrono::nanoseconds sum{0};
  for (const pid_t process : with_descendants(pid, kProcessesMax)) {
    const auto time = run_time(process);
    if (!time && process == pid) return std::nullopt;
    sum += time.value_or(std::chrono::nanoseconds(0));
  }
  return sum;
}

/// Returns the CPU time of the main threads of children that run the same program.
std::chrono::nanoseconds main_time_of_children(pid_t pid) {
  std::chrono::nanoseconds sum{0};
  std::size_t processes = 1;
  for (const pid_t child : children_of_main_thread(pid)) {
    if (++processes > kProcessesMax) break;
    if (run_same_program(pid, child)) sum += main_thread_time(child).value_or(ThreadTime{}).run;
  }
  return sum;
}

}  // namespace

WorkerSample sample_of(const Worker& worker, const control::ControlPage& page, bool with_details) {
  const pid_t own = worker.process.pid();
  const pid_t pid = program_behind(own);
  WorkerSample sample{.rank = worker.spec.rank,
                      .pid = pid,
                      .activity = control::read_activity(page, worker.spec.local_rank),
                      .state = process_state(pid).letter};
  // A script that runs one command after another looks like a wrapper.
  if (pid != own && process_state(own).letter == 'T') sample.state = 'T';
  sample.is_traced = sample.state == 't';
  if (const auto time = main_thread_time(pid)) {
    sample.main_time = time->run + main_time_of_children(pid);
    sample.queued_time = time->queued;
  }
  if (!with_details && sample.state != 'T') return sample;
  sample.is_traced = is_traced(pid);
  sample.run_time = run_time_with_descendants(own);
  if (sample.activity.calls == 0) {
    sample.wait_cause = main_thread_wait(pid).cause;
  } else if (sample.state == 'S' && kernel_wait(pid).state == 'D') {
    sample.state = 'D';
  }
  return sample;
}

}  // namespace ddprun
