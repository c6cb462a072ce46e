#include "launcher/agent/restart_policy.hpp"

#include "launcher/report/event_text.hpp"

#include <doctest/doctest.h>

#include <csignal>

namespace restart_policy_test {

using ddprun::AttemptOutcome;
using ddprun::decide_after_attempt;
using ddprun::RestartDecision;
using ddprun::RestartHistory;
using ddprun::restarts_left;
using ddprun::RestartSettings;
using ddprun::RunResult;
using ddprun::WorkerExited;
using Action = RestartDecision::Action;
using namespace std::chrono_literals;

namespace {

WorkerExited exited(int rank, int code, double ran_seconds = 60) {
  return {.rank = rank,
          .local_rank = rank,
          .pid = 100 + rank,
          .exit_code = code,
          .ran_seconds = ran_seconds};
}

WorkerExited killed(int rank, int signal) {
  WorkerExited exit = exited(rank, 0);
  exit.signal = signal;
  return exit;
}

WorkerExited stopped(int rank) {
  WorkerExited exit = killed(rank, SIGTERM);
  exit.was_stopped = true;
  return exit;
}

WorkerExited peer_failed(int rank) {
  WorkerExited exit = exited(rank, 1);
  exit.error_message = "ddprun::PeerFailed: all_reduce #7: rank 0 failed";
  return exit;
}

WorkerExited gloo_failed(int rank) {
  WorkerExited exit = exited(rank, 1);
  exit.last_lines = {"RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer"};
  return exit;
}

std::vector<int> ranks(const std::vector<WorkerExited>& exits) {
  std::vector<int> result;
  result.reserve(exits.size());
  for (const auto& exit : exits) result.push_back(exit.rank);
  return result;
}

}  // namespace

TEST_SUITE("restart policy") {
  TEST_CASE("the run succeeds when every worker exits with 0") {
    const auto decision =
        decide_after_attempt({.exits = {exited(0, 0), exited(1, 0)}}, {}, {}, {.max_restarts = 3});
    CHECK(decision.action == Action::finish);
    CHECK(decision.result == RunResult::succeeded);
  }

  TEST_CASE("a failure is restarted while restarts are left and ends the run when none are") {
    const RestartSettings settings{.max_restarts = 2};
    for (const int attempt : {0, 1}) {
      const auto decision = decide_after_attempt({.exits = {exited(0, 3), stopped(1)}},
                                                 {.restarts = attempt}, {}, settings);
      CHECK(decision.action == Action::restart);
      CHECK(decision.delay == 0ms);
    }
    const auto last =
        decide_after_attempt({.exits = {exited(0, 3), stopped(1)}}, {.restarts = 2}, {}, settings);
    CHECK(last.action == Action::finish);
    CHECK(last.result == RunResult::failed);
    CHECK(last.reason == "rank 0 (pid 100) failed with exit code 3; no restarts left of 2");
  }

  TEST_CASE("a signal to the agent ends the run whatever the workers did") {
    const auto decision = decide_after_attempt({.exits = {exited(0, 3)}, .signal = SIGINT}, {}, {},
                                               {.max_restarts = 3});
    CHECK(decision.action == Action::finish);
    CHECK(decision.result == RunResult::interrupted);
    CHECK(decision.reason == "interrupted by SIGINT");
  }

  TEST_CASE("no attempt starts beside processes that could not be killed") {
    WorkerExited stuck = exited(1, 255);
    stuck.still_running = "65 s after SIGKILL: state D";
    WorkerExited stopped_but_stuck = stuck;
    stopped_but_stuck.was_stopped = true;
    const std::string helper = "process 7 (tar) is still running 66 s after SIGKILL: state D";
    const std::string worker = "rank 1 (pid 101) is still running 65 s after SIGKILL: state D";
    struct Row {
      AttemptOutcome outcome;
      RunResult result;
      std::string reason;
    };
    const std::vector<Row> table = {
        {{.exits = {exited(0, 3), stopped_but_stuck}, .still_running = worker},
         RunResult::failed,
         "rank 0 (pid 100) failed with exit code 3; no restart, because " + worker},
        {{.exits = {stuck, stopped(0)}, .still_running = worker},
         RunResult::failed,
         worker + "; no restart beside it"},
        {{.exits = {exited(0, 3)}, .still_running = helper},
         RunResult::failed,
         "rank 0 (pid 100) failed with exit code 3; no restart, because " + helper},
        {{.exits = {exited(0, 0)}, .still_running = helper},
         RunResult::succeeded,
         "all workers succeeded"},
        {{.exits = {stuck}, .signal = SIGTERM, .still_running = worker},
         RunResult::interrupted,
         "interrupted by SIGTERM"}};
    for (const auto& row : table) {
      const auto decision = decide_after_attempt(row.outcome, {}, {}, {.max_restarts = 3});
      CHECK(decision.action == Action::finish);
      CHECK(decision.result == row.result);
      CHECK(decision.reason == row.reason);
    }
  }

  TEST_CASE("only repeated fast failures are followed by a growing pause with an upper limit") {
    const RestartSettings settings{.max_restarts = 100};
    const std::chrono::milliseconds expected[] = {0ms, 0ms, 500ms, 1s, 2s, 4s, 8s, 16s, 30s, 30s};
    RestartHistory history;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const auto decision =
          decide_after_attempt({.exits = {exited(0, 1, 0.1)}}, history, {}, settings);
      CHECK(decision.delay == expected[attempt]);
      history = decision.history;
    }
    const auto slow = decide_after_attempt({.exits = {exited(0, 1, 60)}}, history, {}, settings);
    CHECK(slow.history.fast_failures == 0);
    CHECK(slow.delay == 0ms);
  }

  TEST_CASE("with a window a restart counts no more when it is long ago") {
    const RestartSettings settings{.max_restarts = 1, .window = 10s};
    const AttemptOutcome failed{.exits = {exited(0, 3, 60)}};
    const std::chrono::steady_clock::time_point start{};
    const auto first = decide_after_attempt(failed, {}, start, settings);
    CHECK(first.action == Action::restart);
    CHECK(decide_after_attempt(failed, first.history, start + 9s, settings).action ==
          Action::finish);
    CHECK(decide_after_attempt(failed, first.history, start + 10s, settings).action ==
          Action::restart);
    CHECK(restarts_left(1, {.max_restarts = 3}) == 2);
    CHECK_FALSE(restarts_left(1, settings).has_value());
  }

  TEST_CASE("the delay does not overflow after a great many fast failures") {
    const auto decision =
        decide_after_attempt({.exits = {exited(0, 1, 0.1)}},
                             {.restarts = 5, .fast_failures = 1'000'000}, {}, {.max_restarts = 10});
    CHECK(decision.delay == 30s);
  }

  TEST_CASE("the root cause is the first failure that was nobody else's doing") {
    struct Row {
      std::vector<WorkerExited> exits;
      std::vector<int> expected;
    };
    const Row rows[] = {
        {{exited(2, 1), exited(0, 2)}, {2, 0}},
        {{stopped(3), killed(1, SIGSEGV)}, {1}},
        {{peer_failed(0), peer_failed(3), killed(1, SIGKILL)}, {1, 0, 3}},
        {{peer_failed(0), exited(1, 0)}, {0}},
        {{gloo_failed(0), exited(1, 1)}, {1, 0}},
        {{stopped(0), stopped(1)}, {0, 1}},
        {{exited(0, 0)}, {}},
    };
    for (const auto& row : rows) CHECK(ranks(failures_root_cause_first(row.exits)) == row.expected);
  }

  TEST_CASE("a failure is described by code or by the signal's name") {
    CHECK(describe_failure(exited(2, 3)) == "rank 2 (pid 102) failed with exit code 3");
    CHECK(describe_failure(killed(2, SIGKILL)) == "rank 2 (pid 102) was killed by SIGKILL");
    CHECK(describe_failure(killed(2, SIGRTMIN + 3)) == "rank 2 (pid 102) was killed by SIGRTMIN+3");
    auto out_of_memory = killed(0, SIGKILL);
    out_of_memory.is_out_of_memory = true;
    CHECK(describe_failure(out_of_memory) ==
          "rank 0 (pid 100) was killed by SIGKILL (out of memory)");
    auto forwarded = killed(0, SIGUSR1);
    forwarded.was_forwarded = true;
    CHECK(describe_failure(forwarded) ==
          "rank 0 (pid 100) was killed by SIGUSR1, which ddprun received and forwarded");
  }
}

}  // namespace restart_policy_test
