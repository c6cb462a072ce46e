// A node whose process hosts the coordinator with a term that ends, or whose agent was stopped.
#include "rendezvous/membership/node_state_machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace node_term_test {

using namespace ddprun::membership;
using namespace std::chrono_literals;

namespace {

Time at(int milliseconds) {
  return Time(std::chrono::hours(1)) + std::chrono::milliseconds(milliseconds);
}

/// The last end of the lease that the guardian received.
std::optional<Time> guarded_until(const std::vector<NodeAction>& actions) {
  std::optional<Time> end;
  for (const auto& action : actions) {
    if (const auto* guard = std::get_if<GuardUntil>(&action)) end = guard->end;
  }
  return end;
}

template <typename Action>
bool has(const std::vector<NodeAction>& actions) {
  for (const auto& action : actions) {
    if (std::holds_alternative<Action>(action)) return true;
  }
  return false;
}

const RoundFormed kRound{.round = 0, .nodes = {{.name = "a", .role = "default"}}};

/// Joined at 0 with a lease of 3 s, which the node counts as 2.5 s; its workers run.
NodeStateMachine with_workers(Time term_end) {
  NodeStateMachine part(Join{.name = "a"}, Settings{}, at(0));
  part.start(at(0));
  part.apply(Connected{term_end}, at(0));
  const auto welcomed = part.apply(MessageReceived{Welcome{3s}}, at(0));
  CHECK(guarded_until(welcomed) == std::min(at(2500), term_end));
  part.apply(MessageReceived{kRound}, at(20));
  return part;
}

}  // namespace

TEST_SUITE("suspended agent") {
  TEST_CASE("suspended agent: the warning has the duration and whether workers were killed") {
    struct Row {
      int now;
      const char* end;
    };
    // A heartbeat is due at 500 ms, and the lease ends at 2500 ms.
    for (const auto& [now, end] :
         {Row{1400, ": reset"}, Row{2200, "; this agent has not run for 1.7 s"},
          Row{9500,
              "; this agent has not run for 9 s, and its guardian has killed the workers when "
              "the lease ended"}}) {
      auto part = with_workers(Time::max());
      const auto actions = part.apply(ConnectionLost{"reset"}, at(now));
      const auto announced = std::find_if(
          actions.begin(), actions.end(),
          [](const NodeAction& action) { return std::holds_alternative<Announce>(action); });
      REQUIRE(announced != actions.end());
      CHECK(std::get<Announce>(*announced).text.ends_with(end));
    }
  }
}

TEST_SUITE("node beside an elected coordinator") {
  TEST_CASE("elected host's node: workers are guarded until term or lease ends") {
    auto part = with_workers(at(2000));
    CHECK(part.next_wake() == at(500));
    part.apply(NodeTimePassed{}, at(500));
    const auto answered = part.apply(MessageReceived{HeartbeatAnswer{1}}, at(510));
    CHECK_FALSE(guarded_until(answered));
    CHECK(guarded_until(part.apply(TermRenewed{at(2500)}, at(520))) == at(2500));
    CHECK(guarded_until(part.apply(TermRenewed{at(9000)}, at(530))) == at(3000));
  }

  TEST_CASE("elected host's node: the end of the term kills the workers") {
    auto part = with_workers(at(2000));
    part.apply(NodeTimePassed{}, at(1990));
    part.apply(MessageReceived{HeartbeatAnswer{1}}, at(1995));
    CHECK(part.next_wake() == at(2000));
    const auto actions = part.apply(NodeTimePassed{}, at(2000));
    CHECK(has<Disconnect>(actions));
    CHECK(has<EndWorkers>(actions));
  }

  TEST_CASE("elected host's node: a renewal read after the end of the term is ignored") {
    auto part = with_workers(at(2000));
    CHECK(has<EndWorkers>(part.apply(TermRenewed{at(2400)}, at(2100))));
  }

  TEST_CASE("elected host's node: a round read after the end of the term does not start") {
    NodeStateMachine part(Join{.name = "a"}, Settings{}, at(0));
    part.start(at(0));
    part.apply(Connected{at(2000)}, at(0));
    part.apply(MessageReceived{Welcome{3s}}, at(0));
    CHECK_FALSE(has<StartWorkers>(part.apply(MessageReceived{kRound}, at(2100))));
  }

  TEST_CASE("elected host's node: renewals of another coordinator's term are ignored") {
    auto part = with_workers(Time::max());
    CHECK_FALSE(guarded_until(part.apply(TermRenewed{at(100)}, at(50))));
    CHECK(part.next_wake() == at(500));
  }
}

}  // namespace node_term_test
