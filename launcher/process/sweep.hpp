// Ends processes that the workers of an attempt have left running, by SIGTERM, then by SIGKILL,
// unless they soon end by themselves.
// Does not block the agent's thread; the guardian has a blocking variant (run_members.hpp).
#pragma once

#include "launcher/process/containment.hpp"
#include "launcher/process/limited_wait.hpp"
#include "launcher/process/stop_sequence.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace ddprun {

/// Result of a sweep.
struct Swept {
  std::vector<pid_t> ended;          ///< processes ended by SIGTERM or SIGKILL
  std::vector<pid_t> left;           ///< processes that could not be killed
  std::vector<std::string> reports;  ///< for each in `left`: process and reason
};

class Sweep {
 public:
  Sweep(const boost::asio::any_io_executor& executor, const Containment& containment,
        KilledLimits limits, Log log)
      : containment_(containment), wait_(executor), limits_(limits), log_(std::move(log)) {}

  /// See WorkerGroup::sweep(). Does not wait long for the processes in `abandoned` nor, after a
  /// hang, for processes in state D.
  boost::asio::awaitable<Swept> run(std::vector<pid_t> abandoned, bool is_after_hang);

  /// Ends the waits before SIGKILL.
  void end_wait();

 private:
  boost::asio::awaitable<void> wait_for_ends(std::vector<pid_t>& asked);
  boost::asio::awaitable<void> wait_for(PendingExits ends);
  boost::asio::awaitable<bool> kill_for(Deadline::Duration limit, std::vector<pid_t>& met);
  std::vector<pid_t> members_that_may_end() const;
  std::string report_of(pid_t pid) const;

  const Containment& containment_;
  LimitedWait wait_;
  KilledLimits limits_;
  Log log_;
  bool is_killing_ = true;  ///< no longer waits for processes that have not been killed
  std::chrono::steady_clock::time_point killed_at_;  ///< start of the first round of kills
  std::vector<pid_t> abandoned_;                     ///< killed earlier; have not ended
  bool is_after_hang_ = false;
  std::vector<pid_t> refusing_;  ///< not ended by the last round of kills
};

}  // namespace ddprun
