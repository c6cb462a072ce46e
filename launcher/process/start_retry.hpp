// Retries failed starts of the workers of one attempt by the rules of start_policy.hpp: logs the
// first failure and pauses before each retry. Not thread-safe.
#pragma once

#include "launcher/process/start_policy.hpp"
#include "rendezvous/base/run_clock.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <string>

namespace ddprun {

class StartRetry {
 public:
  /// `is_restart` and `limit` as in FailedStart.
  StartRetry(boost::asio::any_io_executor executor, bool is_restart, Log log = {},
             std::chrono::milliseconds limit = kStartRetryLimit);

  /// Returns the action that follows a failed start of worker `rank`; a retry after its pause,
  /// which end() cuts short. `message`: see describe_start_failure().
  boost::asio::awaitable<StartDecision::Action> after(StartFailure failure, int rank,
                                                      std::string message);

  /// Ends the current pause and disables later ones. Callers of after() check has_ended() before
  /// they retry.
  void end();
  bool has_ended() const { return has_ended_; }

 private:
  RunTimer pause_;
  bool is_restart_;
  Log log_;
  std::chrono::milliseconds limit_;
  int tries_ = 0;                       ///< failed starts
  RunClock::time_point first_failure_;  ///< meaningful if tries_ > 0
  bool has_ended_ = false;
};

}  // namespace ddprun
