// Steps that stop the workers, at each time and for each plan.
#include "launcher/process/stop_sequence.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <variant>
#include <vector>

namespace stop_sequence_test {

using namespace ddprun;
using namespace std::chrono_literals;
using Phase = StopSequence::Phase;

namespace {

constexpr KilledLimits kLimits{.warning_after = 5s, .abandoned_after = 60s};

/// A sequence and its clock; steps as text.
class Bench {
 public:
  explicit Bench(StacksWhen stacks) : sequence(stacks, kLimits) {}

  std::string request(std::chrono::milliseconds grace, int signal = SIGTERM) {
    return text_of(sequence.request(now_, signal, grace));
  }
  std::string stacks_taken() { return text_of(sequence.stacks_taken(now_)); }
  std::string wait(std::chrono::milliseconds time, bool are_stuck = false) {
    now_ += time;
    return text_of(sequence.advance(now_, are_stuck));
  }
  void only_killed_left() { sequence.only_killed_left(now_); }

  StopSequence sequence;

 private:
  static std::string text_of(const StopSequence::Steps& steps) {
    std::string text;
    for (const auto& step : steps) {
      if (!text.empty()) text += ", ";
      if (const auto* stacks = std::get_if<StopSequence::TakeStacks>(&step)) {
        text += "stacks before " + std::to_string(stacks->moment.next_signal);
        const auto ranks = stacks->moment.scope.ranks.value_or(std::vector<int>());
        for (const int rank : ranks) text += " of " + std::to_string(rank);
      } else if (const auto* signal = std::get_if<StopSequence::Signal>(&step)) {
        text += "signal " + std::to_string(signal->signal);
      } else if (const auto* kill = std::get_if<StopSequence::Kill>(&step)) {
        text += "kill: " + kill->reason;
      } else {
        text += std::holds_alternative<StopSequence::Warn>(step) ? "warn" : "abandon";
      }
    }
    return text;
  }

  StopSequence::Time now_{1h};
};

}  // namespace

TEST_SUITE("stop sequence") {
  TEST_CASE("stop sequence: workers get a signal and then SIGKILL before they are abandoned") {
    Bench bench(StacksWhen::never);
    CHECK(bench.wait(1h).empty());
    CHECK(bench.request(2s) == "signal 15");
    CHECK(bench.wait(1999ms).empty());
    CHECK(bench.wait(1ms) == "kill: still running 2.0 s after the request to stop");
    CHECK(bench.wait(4999ms).empty());
    CHECK(bench.wait(1ms) == "warn");
    CHECK(bench.wait(59999ms).empty());
    CHECK(bench.wait(1ms) == "abandon");
    CHECK_FALSE(bench.sequence.deadline());
    CHECK(bench.wait(1h).empty());
  }

  TEST_CASE("stop sequence: killed workers that hang in the kernel are not waited for") {
    Bench bench(StacksWhen::never);
    CHECK(bench.request(30s) == "signal 15");
    bench.only_killed_left();
    CHECK(bench.wait(4999ms, true).empty());
    CHECK(bench.wait(1ms, true) == "abandon");
    CHECK_FALSE(bench.sequence.deadline());

    Bench beside_a_slow_one(StacksWhen::never);
    CHECK(beside_a_slow_one.request(30s) == "signal 15");
    CHECK(beside_a_slow_one.wait(30s) == "kill: still running 30.0 s after the request to stop");
    CHECK(beside_a_slow_one.wait(5s, true) == "abandon");
  }

  TEST_CASE("stop sequence: killed workers that leave the kernel get the usual time to end") {
    Bench bench(StacksWhen::kill);
    bench.only_killed_left();  // before a stop it has no effect
    CHECK(bench.request(30s) == "signal 15");
    bench.only_killed_left();
    CHECK(bench.request(1s).empty());
    CHECK(bench.request(0s) == "kill: no grace period");  // for descendants
    CHECK(bench.request(0s).empty());
    CHECK(bench.wait(5s) == "warn");
    CHECK(bench.wait(60s) == "abandon");
  }

  TEST_CASE("stop sequence: --stacks selects the steps that capture stacks") {
    struct Row {
      StacksWhen when;
      std::vector<int> late;
      const char* requested;
      const char* after_grace;
    };
    const std::vector<Row> rows = {
        {StacksWhen::never, {}, "signal 15", "kill: still running 1.0 s after the request to stop"},
        {StacksWhen::never,
         {3},
         "signal 15",
         "kill: still running 1.0 s after the request to stop"},
        {StacksWhen::kill, {}, "signal 15", "stacks before 9"},
        {StacksWhen::kill, {3}, "stacks before 15 of 3", "stacks before 9"},
        {StacksWhen::stop, {}, "stacks before 15", "stacks before 9"},
        {StacksWhen::stop, {3}, "stacks before 15", "stacks before 9"}};  // all ranks
    for (const auto& row : rows) {
      CAPTURE(row.requested);
      CAPTURE(row.late.size());
      Bench bench(row.when);
      if (!row.late.empty()) bench.sequence.set_first_stacks({.ranks = row.late});
      const bool is_before = std::string(row.requested).starts_with("stacks");
      CHECK(bench.sequence.expects_stacks_before_signal() == is_before);
      CHECK(bench.request(1s) == row.requested);
      if (is_before) CHECK(bench.stacks_taken() == "signal 15");
      CHECK_FALSE(bench.sequence.expects_stacks_before_signal());
      CHECK(bench.wait(1s) == row.after_grace);
      if (row.when != StacksWhen::never) {
        CHECK(bench.wait(1h).empty());  // the capture has a time limit of its own
        CHECK(bench.stacks_taken() == "kill: still running 1.0 s after the request to stop");
      }
      CHECK(bench.sequence.phase() == Phase::killed);
    }
  }

  TEST_CASE("stop sequence: stacks of a hang include those of all ranks with --stacks=stop") {
    for (const auto when : {StacksWhen::kill, StacksWhen::stop}) {
      StopSequence sequence(when, kLimits);
      sequence.set_first_stacks({.ranks = std::vector{3}, .is_hang = true});
      const auto steps = sequence.request(StopSequence::Time(1h), SIGTERM, 1s);
      REQUIRE(steps.size() == 1);
      const auto& scope = std::get<StopSequence::TakeStacks>(steps[0]).moment.scope;
      CHECK(scope.is_hang);
      CHECK(scope.ranks.has_value() == (when == StacksWhen::kill));
    }
  }

  TEST_CASE("stop sequence: a repeated request can only shorten the grace period") {
    Bench bench(StacksWhen::never);
    CHECK(bench.request(10s) == "signal 15");
    CHECK(bench.request(20s, SIGINT) == "signal 2");
    CHECK(bench.wait(1s).empty());
    CHECK(bench.request(1s) == "signal 15");
    CHECK(bench.wait(1s) == "kill: still running 1.0 s after the request to stop");
  }

  TEST_CASE("stop sequence: a request during the first stacks can shorten the grace period") {
    Bench bench(StacksWhen::stop);
    CHECK(bench.request(10s) == "stacks before 15");
    CHECK(bench.request(1s).empty());
    CHECK(bench.request(20s).empty());
    CHECK(bench.stacks_taken() == "signal 15");
    CHECK(bench.wait(1s) == "stacks before 9");
    CHECK(bench.request(5s) == "signal 15");
    CHECK(bench.wait(5s).empty());
  }

  TEST_CASE("stop sequence: a request without a grace period kills once in every phase") {
    const std::string killed = "signal 9, kill: no grace period";
    for (const auto phase : {Phase::running, Phase::stacks_before_signal, Phase::grace_period,
                             Phase::stacks_before_kill}) {
      CAPTURE(static_cast<int>(phase));
      Bench bench(StacksWhen::stop);
      if (phase >= Phase::stacks_before_signal) CHECK_FALSE(bench.request(1s).empty());
      if (phase >= Phase::grace_period) CHECK_FALSE(bench.stacks_taken().empty());
      if (phase >= Phase::stacks_before_kill) CHECK_FALSE(bench.wait(1s).empty());
      REQUIRE(bench.sequence.phase() == phase);
      CHECK(bench.request(0s, SIGKILL) == killed);
      CHECK(bench.request(0s, SIGKILL).empty());
      CHECK(bench.request(1s).empty());
      CHECK(bench.stacks_taken().empty());
      CHECK(bench.wait(5s) == "warn");
    }
  }

  TEST_CASE("stop sequence: a closed sequence has no further steps") {
    Bench bench(StacksWhen::stop);
    CHECK(bench.request(1s) == "stacks before 15");
    bench.sequence.close();
    CHECK(bench.stacks_taken().empty());
    CHECK(bench.request(0s).empty());
    CHECK(bench.wait(1h).empty());
  }
}

}  // namespace stop_sequence_test
