#include "launcher/process/start_retry.hpp"

#include "rendezvous/base/run_clock.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <doctest/doctest.h>

#include <cerrno>
#include <future>
#include <string>
#include <vector>

namespace start_retry_test {

using namespace ddprun;
using namespace std::chrono_literals;
using Action = StartDecision::Action;

namespace {

constexpr StartFailure kBusy{.step = StartStep::exec, .error_number = ETXTBSY};

/// One retry's after() on a loop of its own.
struct Trial {
  boost::asio::io_context io;
  std::vector<std::string> log;
  StartRetry retry{io.get_executor(), true,
                   [this](LogLevel, std::string_view line) { log.emplace_back(line); }};

  std::future<Action> fail(StartFailure failure = kBusy) {
    auto deciding = retry.after(failure, 2, "busy");
    io.restart();
    return boost::asio::co_spawn(io, std::move(deciding), boost::asio::use_future);
  }
};

bool is_ready(const std::future<Action>& action) {
  return action.wait_for(0s) == std::future_status::ready;
}

}  // namespace

TEST_SUITE("start policy") {
  TEST_CASE("start policy: only temporary errors are retried") {
    struct Row {
      StartFailure failure;
      Action first_start;
      Action restart;
    };
    const std::vector<Row> table = {
        {{StartStep::fork, EAGAIN}, Action::retry, Action::retry},
        {{StartStep::fork, ENOMEM}, Action::retry, Action::retry},
        {{StartStep::fork, ENFILE}, Action::retry, Action::retry},
        {{StartStep::fork, EMFILE}, Action::retry, Action::retry},
        {{StartStep::fork, EPERM}, Action::end_run, Action::end_run},
        {{StartStep::cgroup, EAGAIN}, Action::retry, Action::retry},
        {{StartStep::cgroup, EBUSY}, Action::end_run, Action::end_run},
        {{StartStep::cgroup, ENOENT}, Action::end_run, Action::end_run},
        {{StartStep::affinity, EINVAL}, Action::end_run, Action::end_run},
        {{StartStep::folder, ENOENT}, Action::end_run, Action::retry},
        {{StartStep::exec, ETXTBSY}, Action::retry, Action::retry},
        {{StartStep::exec, ENOMEM}, Action::retry, Action::retry},
        {{StartStep::exec, ENOSPC}, Action::retry, Action::retry},
        {{StartStep::exec, EDQUOT}, Action::retry, Action::retry},
        {{StartStep::exec, ENOENT}, Action::end_run, Action::retry},
        {{StartStep::exec, EACCES}, Action::end_run, Action::retry},
        {{StartStep::exec, ENOEXEC}, Action::end_run, Action::retry},
        {{StartStep::exec, ESTALE}, Action::end_run, Action::retry},
        {{StartStep::exec, E2BIG}, Action::end_run, Action::end_run},
        {{StartStep::exec, ETIMEDOUT}, Action::end_run, Action::end_run},
        {{StartStep::thread, EAGAIN}, Action::retry, Action::retry},
        {{StartStep::files, ENOSPC}, Action::retry, Action::retry},
        {{StartStep::files, EMFILE}, Action::retry, Action::retry},
        {{StartStep::files, EAGAIN}, Action::retry, Action::retry},
        {{StartStep::files, EACCES}, Action::end_run, Action::retry},
        {{StartStep::files, EIO}, Action::end_run, Action::retry},
    };
    for (const auto& row : table) {
      CAPTURE(to_string(row.failure.step));
      CAPTURE(row.failure.error_number);
      CHECK(decide_after_failed_start({.failure = row.failure}).action == row.first_start);
      CHECK(decide_after_failed_start({.failure = row.failure, .is_restart = true}).action ==
            row.restart);
    }
  }

  TEST_CASE("start policy: pauses between attempts double up to one second until the limit") {
    struct Row {
      int tries;
      std::chrono::milliseconds elapsed;
      StartDecision expected;
    };
    const std::vector<Row> table = {
        {1, 0ms, {Action::retry, 20ms}},       {2, 20ms, {Action::retry, 40ms}},
        {6, 620ms, {Action::retry, 640ms}},    {7, 1260ms, {Action::retry, 1000ms}},
        {1'000'000, 1ms, {Action::retry, 1s}}, {15, 9700ms, {Action::retry, 300ms}},
        {16, 10s, {Action::fail_worker, 0ms}}, {16, 1h, {Action::fail_worker, 0ms}},
        {1, 9999ms, {Action::retry, 1ms}},
    };
    for (const auto& row : table) {
      CAPTURE(row.tries);
      CHECK(decide_after_failed_start(
                {.failure = kBusy, .tries = row.tries, .elapsed = row.elapsed}) == row.expected);
    }
  }
}

TEST_SUITE("start retry") {
  TEST_CASE("start retry: only the first failure is logged") {
    Trial trial;
    for (int i = 0; i < 2; ++i) {
      auto action = trial.fail();
      trial.io.run();
      CHECK(action.get() == Action::retry);
    }
    CHECK(trial.log == std::vector<std::string>{"rank 2: busy; retrying for up to 10 s"});
  }

  TEST_CASE("start retry: a permanent error is not logged and causes no pause") {
    Trial trial;
    auto action = trial.fail({.step = StartStep::exec, .error_number = E2BIG});
    trial.io.run();
    CHECK(action.get() == Action::end_run);
    CHECK(trial.log.empty());
  }

  TEST_CASE("start retry: end() ends the current pause and later ones") {
    Trial trial;
    auto action = trial.fail();
    trial.io.poll();
    RunClock::add_suspension(1h);
    trial.io.restart();
    trial.io.poll();
    CHECK_FALSE(is_ready(action));
    trial.retry.end();
    trial.io.restart();
    trial.io.run();
    CHECK(action.get() == Action::retry);
    CHECK(trial.retry.has_ended());
    auto next = trial.fail();
    trial.io.poll();
    CHECK(is_ready(next));
  }

  TEST_CASE("start retry: the time of a suspension does not count towards the limit") {
    Trial trial;
    const auto run = [&] {
      auto action = trial.fail();
      trial.io.run();
      return action.get();
    };
    CHECK(run() == Action::retry);
    RunClock::add_suspension(-1h);  // as if an hour had passed
    CHECK(run() == Action::fail_worker);
    RunClock::add_suspension(1h);
    CHECK(run() == Action::retry);
  }
}

}  // namespace start_retry_test
