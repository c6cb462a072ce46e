#include "launcher/process/worker_sample.hpp"

#include "launcher/process/proc_scan.hpp"
#include "launcher/process/worker.hpp"

namespace ddprun {

WorkerSample sample_of(const Worker& worker, const control::ControlPage& page, bool with_children) {
  const int local_rank = worker.spec.local_rank;
  const pid_t own = worker.process.pid();
  const pid_t announced = page.pid(local_rank);
  const pid_t pid = announced > 0 ? announced : own;
  const auto state = process_state(pid);
  WorkerSample sample{.rank = worker.spec.rank,
                      .pid = pid,
                      .activity = control::read_activity(page, local_rank),
                      .state = state.letter,
                      .cpu_ticks = state.cpu_ticks};
  // A wrapper such as sh is stopped with the program.
  if (pid != own && process_state(own).letter == 'T') sample.state = 'T';
  if (with_children) {
    for (const pid_t child : children_of(pid)) sample.cpu_ticks += process_state(child).cpu_ticks;
  }
  return sample;
}

}  // namespace ddprun
