#include "launcher/process/start_retry.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdio>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

StartRetry::StartRetry(asio::any_io_executor executor, bool is_restart, Log log,
                       std::chrono::milliseconds limit)
    : pause_(std::move(executor)), is_restart_(is_restart), log_(std::move(log)), limit_(limit) {}

asio::awaitable<StartDecision::Action> StartRetry::after(StartFailure failure, int rank,
                                                         std::string message) {
  const auto now = RunClock::now();
  if (tries_++ == 0) first_failure_ = now;
  const auto decision = decide_after_failed_start(
      {.failure = failure,
       .is_restart = is_restart_,
       .tries = tries_,
       .elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - first_failure_),
       .limit = limit_});
  if (decision.action != StartDecision::Action::retry) co_return decision.action;
  if (tries_ == 1) {
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g s", std::chrono::duration<double>(limit_).count());
    write_log(log_, LogLevel::warn,
              "rank " + std::to_string(rank) + ": " + message + "; retrying for up to " + limit);
  }
  pause_.expires_after(decision.pause);
  while (!has_ended_ && RunClock::now() < pause_.expiry()) {
    boost::system::error_code ignored;
    co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return decision.action;
}

void StartRetry::end() {
  has_ended_ = true;
  pause_.cancel();
}

}  // namespace ddprun
