// Formats each event as a line for users: level, attempt and message. Pure.
#pragma once

#include "launcher/report/event.hpp"
#include <ddprun/log.hpp>

#include <string>

namespace ddprun {

struct EventLine {
  LogLevel level = LogLevel::info;
  int attempt = -1;  ///< number of the attempt; -1: none
  std::string message;
};

/// Returns the line for `event`. RunFinished becomes one sentence; see final_report.hpp for the
/// complete report.
EventLine line_for(const Event& event);

/// Returns text such as "exit code 3" or "SIGKILL (out of memory)".
std::string end_of(const WorkerExited& worker);

/// Returns "rank 0 (pid 12) failed with exit code 3" or similar text for a signal.
std::string describe_failure(const WorkerExited& worker);

/// Returns "stopping the workers, at most 30 s; send it again after 2 s to kill them at once".
/// `pause`: time after which another signal counts as a further request; 0: no minimum.
std::string describe_stop(std::chrono::milliseconds grace, std::chrono::seconds pause);

/// Returns the ranks in ascending order, such as "2" or "0, 1, 3-7".
std::string format_ranks(std::vector<int> ranks);

/// Returns "rank 2" or "ranks 0, 1".
std::string ranks_phrase(const std::vector<int>& ranks);

/// Removes the prefix "[rank3]: ", which PyTorch since 2.2 adds to each line of an uncaught
/// exception.
std::string_view without_rank(std::string_view line);

}  // namespace ddprun
