// Kills of the guardian.
#include "tests/support/program.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <optional>

namespace guardian_test {

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_file;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;

namespace {

/// The program's guardian, once it is started completely.
std::optional<pid_t> guardian_of(const Program& program) {
  for (const pid_t pid : program.descendants()) {
    if (read_file("/proc/" + std::to_string(pid) + "/comm") == "guardian\n") return pid;
  }
  return std::nullopt;
}

/// Waits for the guardian and kills it.
pid_t kill_guardian(const Program& program) {
  std::optional<pid_t> guardian;
  wait_until([&] { return (guardian = guardian_of(program)).has_value(); });
  REQUIRE(guardian);
  ::kill(*guardian, SIGKILL);
  return *guardian;
}

/// A worker with a grandchild in its own session, which only the guardian can end after a kill of
/// ddprun.
std::vector<std::string> run_with_grandchild() {
  return {in_bin("ddprun"), "--no_python", "/bin/sh", "-c",
          "setsid sleep 1000 & echo up; sleep 1000"};
}

bool is_there(pid_t pid) {
  return ::kill(pid, 0) == 0;
}

}  // namespace

TEST_SUITE("guardian") {
  TEST_CASE("guardian: a killed guardian is replaced at once and the run continues") {
    Program program(run_with_grandchild());
    REQUIRE(program.read_until_contains("up"));
    const auto killed = kill_guardian(program);
    CHECK(program.read_until_contains("the guardian (pid " + std::to_string(killed) +
                                      ") was killed; another one"));
    program.signal(SIGTERM);
    CHECK(program.wait() == 128 + SIGTERM);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("guardian: no process remains if ddprun is killed right after the guardian") {
    for (const bool has_settled : {true, false}) {
      CAPTURE(has_settled);
      Program program(run_with_grandchild());
      REQUIRE(program.read_until_contains("up"));
      kill_guardian(program);
      REQUIRE(program.read_until_contains("another one"));
      if (has_settled) CHECK(wait_until([&] { return guardian_of(program).has_value(); }));
      program.signal(SIGKILL);
      CHECK(program.wait() == -SIGKILL);
      CHECK(program.leaves_no_process(std::chrono::seconds(30)));
    }
  }

  TEST_CASE("guardian: killed guardians are replaced a limited number of times") {
    Program program(run_with_grandchild());
    REQUIRE(program.read_until_contains("up"));
    for (int i = 0; i < 11; ++i) {
      const auto killed = kill_guardian(program);
      CHECK(wait_until([&] { return !is_there(killed) || i == 10; }));
    }
    CHECK(
        program.read_until_contains("was killed, like the 10 before it, and will not be replaced"));
    program.signal(SIGTERM);
    CHECK(program.wait() == 128 + SIGTERM);
    CHECK(program.leaves_no_process());
  }
}

}  // namespace guardian_test
