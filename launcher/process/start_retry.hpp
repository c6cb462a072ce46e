// The tries to start the workers of one attempt: asks start_policy.hpp what follows a failed one,
// logs the first, and pauses. One thread.
#pragma once

#include "launcher/process/start_policy.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <string>

namespace ddprun {

class StartRetry {
 public:
  using Clock = std::chrono::steady_clock;

  /// `is_restart` and `limit` as in FailedStart.
  StartRetry(boost::asio::any_io_executor executor, bool is_restart, Log log = {},
             std::chrono::milliseconds limit = kStartRetryLimit);

  bool is_restart() const { return is_restart_; }

  /// Returns what follows a failed try to start the worker `rank`, after the pause if that is
  /// another try. Returns early if end() is called. `message`: of describe_start_failure().
  boost::asio::awaitable<StartDecision::Action> after(StartFailure failure, int rank,
                                                      std::string message);

  /// Ends the pause. The caller of after() is to check has_ended() before it tries again.
  void end();
  bool has_ended() const { return has_ended_; }

  /// Extends pause and limit: the agent was suspended for so long.
  void put_off(Clock::duration by);

 private:
  boost::asio::steady_timer pause_;
  bool is_restart_;
  Log log_;
  std::chrono::milliseconds limit_;
  int tries_ = 0;                    ///< failed
  Clock::time_point first_failure_;  ///< if tries_ > 0
  bool has_ended_ = false;
};

}  // namespace ddprun
