// Ends what the workers of an attempt have left running: asks it, then kills it. The agent's way,
// which lets its thread go on meanwhile; the guardian has one that blocks (run_members.hpp). Runs
// on the agent's one thread.
#pragma once

#include "launcher/process/containment.hpp"
#include "launcher/process/limited_wait.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace ddprun {

/// How long killed processes may take to end. One that sleeps in the kernel where no signal reaches
/// it must not keep the run from ending.
struct KilledLimits {
  std::chrono::milliseconds warning_after = std::chrono::seconds(5);    ///< much memory, or stuck
  std::chrono::milliseconds given_up_after = std::chrono::seconds(60);  ///< after the warning
};

/// What a sweep found.
struct Swept {
  std::vector<pid_t> ended;          ///< had to be asked or killed
  std::vector<pid_t> left;           ///< could not be killed
  std::vector<std::string> reports;  ///< of each in `left`: which process it is and why
};

class Sweep {
 public:
  Sweep(const boost::asio::any_io_executor& executor, const Containment& containment,
        KilledLimits limits, Log log)
      : containment_(containment), wait_(executor), limits_(limits), log_(std::move(log)) {}

  /// As WorkerGroup::sweep(). Does not wait again for those in `given_up`.
  boost::asio::awaitable<Swept> run(std::vector<pid_t> given_up);

  /// Kills at once what is still being asked.
  void hurry();

 private:
  boost::asio::awaitable<void> wait_for(PendingExits ends);
  boost::asio::awaitable<bool> kill_for(Deadline::Duration limit, std::vector<pid_t>& met);
  std::vector<pid_t> members_that_may_end() const;
  std::string report_of(pid_t pid) const;

  const Containment& containment_;
  LimitedWait wait_;
  KilledLimits limits_;
  Log log_;
  bool is_asking_ = false;
  std::chrono::steady_clock::time_point killed_at_;  ///< the first round of kills
  std::vector<pid_t> given_up_;                      ///< killed before and waited for in vain
  std::vector<pid_t> refusing_;                      ///< in the last round of kills
};

}  // namespace ddprun
