#include "launcher/report/exit_code.hpp"

#include "rendezvous/base/quiet_write.hpp"

#include <chrono>
#include <string_view>
#include <unistd.h>

namespace ddprun {

namespace {

int code_of(const WorkerExited& worker) {
  if (worker.signal != 0) return kExitSignalBase + worker.signal;
  return worker.exit_code != 0 ? worker.exit_code : kExitFailure;
}

}  // namespace

int exit_code_for(RunResult result, ExitCodePolicy policy,
                  const std::vector<WorkerExited>& failures, int interrupting_signal) {
  switch (result) {
    case RunResult::succeeded:
      return kExitSuccess;
    case RunResult::interrupted:
      return interrupting_signal > 0 ? kExitSignalBase + interrupting_signal : kExitFailure;
    case RunResult::not_started:
      return policy == ExitCodePolicy::worker ? kExitNotStarted : kExitFailure;
    case RunResult::unfit:
      return kExitUnfit;
    case RunResult::no_rendezvous:
    case RunResult::agent_failed:
      return kExitFailure;
    case RunResult::failed:
      if (policy == ExitCodePolicy::torchrun || failures.empty()) return kExitFailure;
      return code_of(failures.front());
  }
  return kExitFailure;
}

WorkerExited exit_of(const WorkerNotStarted& failure, int first_rank) {
  WorkerExited exit;
  exit.attempt = failure.attempt;
  exit.rank = failure.rank;
  exit.local_rank = failure.rank - first_rank;
  exit.exit_code = kExitNotStarted;
  exit.ended_at = std::chrono::system_clock::now();
  exit.error_message = failure.message;
  exit.was_started = false;
  return exit;
}

int exit_code_without_output(int code) noexcept {
  constexpr std::string_view kMessage =
      "ddprun: all workers have succeeded, but not all of their output could be written: exit code "
      "1\n";
  if (code != kExitSuccess) return code;
  quiet_write(STDERR_FILENO, kMessage.data(), kMessage.size());
  return kExitFailure;
}

}  // namespace ddprun
