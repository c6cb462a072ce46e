#include "launcher/process/worker.hpp"

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

}  // namespace ddprun
