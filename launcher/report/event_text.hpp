// Each event as a line for people: how serious it is, which attempt it belongs to, and what
// happened. Pure.
#pragma once

#include "launcher/report/event.hpp"
#include <ddprun/log.hpp>

#include <string>

namespace ddprun {

struct EventLine {
  LogLevel level = LogLevel::info;
  int attempt = -1;  ///< -1: the event belongs to none
  std::string message;
};

/// The line for `event`. That of RunFinished is one sentence; the whole is in final_report.hpp.
EventLine line_for(const Event& event);

/// "exit code 3" or "SIGKILL (out of memory)".
std::string end_of(const WorkerExited& worker);

/// "rank 2 (pid 4711) was killed by SIGKILL", "rank 0 (pid 12) failed with exit code 3".
std::string describe_failure(const WorkerExited& worker);

/// "stopping the workers, at most 30 s; again after 2 s to kill them at once". `pause` is the time
/// until another signal is a further request; 0: any time.
std::string describe_stop(std::chrono::milliseconds grace, std::chrono::seconds pause);

/// "2" or "0, 1, 3-7"; ranks in ascending order.
std::string format_ranks(std::vector<int> ranks);

/// "rank 2" or "ranks 0, 1".
std::string ranks_phrase(const std::vector<int>& ranks);

/// Without the "[rank3]: " that PyTorch since 2.2 puts before each line of an uncaught exception.
std::string_view without_rank(std::string_view line);

}  // namespace ddprun
