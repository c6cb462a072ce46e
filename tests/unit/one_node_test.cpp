// A run of one node: both state machines of the membership, connected by a queue as in the agent's
// process.
#include "rendezvous/membership/coordination.hpp"
#include "rendezvous/membership/node_state_machine.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace one_node_test {

using namespace ddprun::membership;
using namespace std::chrono_literals;

namespace {

constexpr NodeId kNode = 0;

class OneNode {
 public:
  explicit OneNode(int max_restarts)
      : coordination_(settings(max_restarts), now_),
        part_({.max_restarts = max_restarts, .is_host = true}, settings(max_restarts), now_) {
    perform(part_.start(now_));
    apply(Connected{});
  }

  void apply(const NodeEvent& event) {
    perform(part_.apply(event, now_));
    while (!messages_.empty()) {
      const auto message = messages_.front();
      messages_.pop_front();
      perform(part_.apply(MessageReceived{message}, now_));
    }
  }

  /// The workers of the round fail after `ran`.
  void fail(std::chrono::duration<double> ran = 60s, std::optional<std::string> left = {}) {
    const Failure failure{.ran_seconds = ran.count(), .description = "rank 0 failed"};
    apply(OwnWorkersFailing{"rank 0 failed"});
    apply(OwnWorkersEnded{
        .failures = {failure},
        .still_running = left,
        .no_restart = left ? std::optional("no restart, because " + *left) : std::nullopt});
  }

  void succeed() { apply(OwnWorkersEnded{.have_succeeded = true}); }
  void ask_to_leave() { apply(AskedToLeave{"was asked to stop by SIGTERM", SIGTERM}); }

  void pass(std::chrono::milliseconds time) {
    now_ += time;
    deliver(coordination_.apply(TimePassed{}, now_));
    apply(NodeTimePassed{});
  }

  std::optional<Time> next_wake() const { return coordination_.next_wake(); }
  bool has_node_wake() const { return part_.next_wake().has_value(); }
  bool is_over() const { return coordination_.is_over(); }

  std::vector<int> rounds;  ///< started
  std::vector<NextRound> announced;
  bool is_guarded = false;  ///< the guardian got the end of a lease
  std::optional<RunOutcome> outcome;

 private:
  static Settings settings(int max_restarts) {
    Settings settings;
    settings.restarts.max_restarts = max_restarts;
    settings.lease = settings.probe_timeout = 0ms;
    return settings;
  }

  void deliver(const std::vector<CoordinatorAction>& actions) {
    for (const auto& action : actions) {
      if (const auto* send = std::get_if<SendToNode>(&action)) messages_.push_back(send->message);
    }
  }

  void perform(const std::vector<NodeAction>& actions) {
    for (const auto& action : actions) {
      if (const auto* send = std::get_if<Send>(&action)) {
        deliver(coordination_.apply(NodeMessageReceived{kNode, send->message}, now_));
      } else if (const auto* start = std::get_if<StartWorkers>(&action)) {
        rounds.push_back(start->round.round);
      } else if (const auto* round = std::get_if<AnnounceRound>(&action)) {
        announced.push_back(round->next);
      } else if (std::holds_alternative<Disconnect>(action)) {
        deliver(coordination_.apply(NodeDisconnected{kNode, "it has left"}, now_));
      } else if (const auto* end = std::get_if<EndRun>(&action)) {
        outcome = end->outcome;
      }
      is_guarded = is_guarded || std::holds_alternative<GuardUntil>(action);
    }
  }

  Time now_{1h};
  Coordination coordination_;
  NodeStateMachine part_;
  std::deque<CoordinatorMessage> messages_;
};

}  // namespace

TEST_SUITE("one node") {
  TEST_CASE("one node: workers start without lease and probe and timer") {
    const OneNode node(0);
    CHECK(node.rounds == std::vector{0});
    CHECK_FALSE(node.is_guarded);
    CHECK_FALSE(node.has_node_wake());
    CHECK(node.next_wake() == Time::max());
  }

  TEST_CASE("one node: success ends the run at once") {
    OneNode node(3);
    node.succeed();
    REQUIRE(node.outcome);
    CHECK(node.outcome->result == RunResult::succeeded);
    CHECK(node.outcome->scope == OutcomeScope::run);
    CHECK(node.outcome->rounds == 1);
    CHECK(node.is_over());
  }

  TEST_CASE("one node: a failure is restarted while restarts are left") {
    OneNode node(1);
    node.fail();
    CHECK(node.rounds == std::vector{0, 1});
    REQUIRE(node.announced.size() == 1);
    CHECK(node.announced[0] == NextRound{1, "rank 0 failed; restart 1 of 1", 0ms});
    node.fail();
    REQUIRE(node.outcome);
    CHECK(node.outcome->result == RunResult::failed);
    CHECK(node.outcome->reason == "rank 0 failed; the only restart is used");
    CHECK(node.outcome->rounds == 2);
    CHECK(node.is_over());
  }

  TEST_CASE("one node: repeated fast failures cause a delay that a signal ends") {
    OneNode node(9);
    for (int i = 0; i < 3; ++i) node.fail(100ms);
    CHECK(node.rounds == std::vector{0, 1, 2});
    CHECK(node.announced.back().delay == 500ms);
    node.pass(499ms);
    CHECK(node.rounds.size() == 3);
    SUBCASE("the delay passes") {
      node.pass(1ms);
      CHECK(node.rounds.size() == 4);
    }
    SUBCASE("the agent is asked to stop") {
      node.ask_to_leave();
      REQUIRE(node.outcome);
      CHECK(node.outcome->result == RunResult::interrupted);
      CHECK(node.is_over());
    }
  }

  TEST_CASE("one node: a signal interrupts the run even if the workers succeed") {
    for (const bool succeed : {true, false}) {
      OneNode node(3);
      node.ask_to_leave();
      CHECK_FALSE(node.outcome);
      succeed ? node.succeed() : node.fail();
      REQUIRE(node.outcome);
      CHECK(node.outcome->result == RunResult::interrupted);
      CHECK(node.outcome->scope == OutcomeScope::run);
      CHECK(node.outcome->signal == SIGTERM);
      CHECK(node.rounds.size() == 1);
      CHECK(node.is_over());
    }
  }

  TEST_CASE("one node: leftover processes prevent a restart but not success") {
    OneNode node(3);
    node.fail(60s, "process 7 is still running");
    REQUIRE(node.outcome);
    CHECK(node.outcome->result == RunResult::failed);
    CHECK(node.outcome->reason == "rank 0 failed; no restart, because process 7 is still running");
    OneNode other(3);
    other.apply(OwnWorkersEnded{.have_succeeded = true, .still_running = "process 7"});
    REQUIRE(other.outcome);
    CHECK(other.outcome->result == RunResult::succeeded);
  }

  TEST_CASE("one node: a worker that cannot be executed ends the run without a restart") {
    OneNode node(3);
    node.apply(OwnWorkersEnded{.not_started = "train: no such file"});
    REQUIRE(node.outcome);
    CHECK(node.outcome->result == RunResult::not_started);
    CHECK(node.outcome->reason == "train: no such file");
  }
}

}  // namespace one_node_test
