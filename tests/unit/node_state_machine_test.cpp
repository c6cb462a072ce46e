#include "rendezvous/membership/node_state_machine.hpp"

#include "rendezvous/membership/outsider.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace node_state_machine_test {

using namespace ddprun::membership;
using namespace std::chrono_literals;

namespace {

Time at(int milliseconds) {
  return Time(std::chrono::hours(1)) + std::chrono::milliseconds(milliseconds);
}

template <typename Action>
std::vector<Action> of(const std::vector<NodeAction>& actions) {
  std::vector<Action> found;
  for (const auto& action : actions) {
    if (const auto* value = std::get_if<Action>(&action)) found.push_back(*value);
  }
  return found;
}

template <typename Message>
bool sends(const std::vector<NodeAction>& actions) {
  for (const auto& send : of<Send>(actions)) {
    if (std::holds_alternative<Message>(send.message)) return true;
  }
  return false;
}

NodeStateMachine joined(bool is_host = false) {
  NodeStateMachine part(Join{.name = "a", .is_host = is_host}, Settings{}, at(0));
  part.start(at(0));
  part.apply(Connected{}, at(0));
  part.apply(MessageReceived{Welcome{3s}}, at(10));
  return part;
}

const RoundFormed kRound{.round = 0, .nodes = {{.name = "a", .role = "default"}}};

NodeStateMachine running(bool is_host = false) {
  auto part = joined(is_host);
  part.apply(MessageReceived{kRound}, at(20));
  return part;
}

}  // namespace

TEST_SUITE("node state machine") {
  TEST_CASE("node: a coordinator that sends waiting notices is not considered silent") {
    NodeStateMachine part(Join{.name = "a"}, Settings{}, at(0));
    part.start(at(0));
    part.apply(Connected{}, at(0));
    for (int now = 0; now < 60'000; now += 9000) {
      CHECK(part.apply(NodeTimePassed{}, at(now)).empty());
      const auto actions = part.apply(MessageReceived{Waiting{"the place is taken"}}, at(now));
      CHECK(of<Announce>(actions).size() == (now == 0 ? 1U : 0U));
      CHECK(part.next_wake() == at(now + 10'000));
    }
    CHECK(of<Disconnect>(part.apply(NodeTimePassed{}, at(73'000))).size() == 1);
  }

  TEST_CASE("node: a node that reconnects sends the age of its latest round") {
    NodeStateMachine part(Join{.name = "a"}, Settings{}, at(0));
    part.start(at(0));
    part.apply(Connected{}, at(0));
    part.apply(MessageReceived{Welcome{3s}}, at(10));
    part.apply(MessageReceived{kRound}, at(20));
    part.apply(ConnectionLost{"reset"}, at(500));
    part.apply(OwnWorkersEnded{}, at(600));
    const auto sent = of<Send>(part.apply(Connected{}, at(1020)));
    REQUIRE(sent.size() == 1);
    CHECK(std::get<Join>(sent[0].message).since_round == 1s);
  }

  TEST_CASE("node: heartbeats contain the activity of the ranks until the workers end") {
    auto part = running();
    const auto sent_at = [&part](int now) {
      const auto sent = of<Send>(part.apply(NodeTimePassed{}, at(now)));
      return sent.empty() ? std::nullopt
                          : std::optional(std::get<Heartbeat>(sent[0].message).activity);
    };
    const RankActivity own{3s, 800}, others{4s, 700};
    part.apply(OwnActivity{own}, at(100));
    CHECK(sent_at(510) == own);
    CHECK(of<NoteActivity>(
              part.apply(MessageReceived{HeartbeatAnswer{1, kRound.round + 1, others}}, at(515)))
              .empty());
    const auto noted = of<NoteActivity>(
        part.apply(MessageReceived{HeartbeatAnswer{1, kRound.round, others}}, at(520)));
    REQUIRE(noted.size() == 1);
    CHECK(noted[0].activity == others);
    part.apply(OwnWorkersEnded{.have_succeeded = true}, at(600));
    CHECK(sent_at(1010) == RankActivity{});
  }

  TEST_CASE("node: notices contain the round, and those of other rounds are ignored") {
    auto part = running();
    const auto sent = of<Send>(part.apply(HangNotice{.ranks = {{0, "sleeps"}}}, at(100)));
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].message == NodeMessage(HangNotice{.round = 0, .ranks = {{0, "sleeps"}}}));
    const auto noted = [&part](const CoordinatorMessage& message) {
      const auto actions = part.apply(MessageReceived{message}, at(200));
      return of<NoteHang>(actions).size() + of<NoteStacks>(actions).size() +
             of<NoteSlowRank>(actions).size();
    };
    CHECK(noted(HangNotice{.round = 0, .node = "b"}) == 1);
    CHECK(noted(HangNotice{.round = 1, .node = "b"}) == 0);
    CHECK(noted(StacksNotice{.round = 0, .node = "b"}) == 1);
    CHECK(noted(StacksNotice{.round = 1, .node = "b"}) == 0);
    CHECK(noted(SlowRankNotice{.round = 0, .node = "b"}) == 1);
    CHECK(noted(SlowRankNotice{.round = 1, .node = "b"}) == 0);
    CHECK(sends<StacksNotice>(part.apply(StacksNotice{}, at(300))));
    CHECK(sends<SlowRankNotice>(part.apply(SlowRankNotice{}, at(300))));
    part.apply(OwnWorkersEnded{}, at(400));
    CHECK(noted(HangNotice{.round = 0, .node = "b"}) == 0);
    CHECK(noted(StacksNotice{.round = 0, .node = "b"}) == 1);
    part.apply(ConnectionLost{"reset"}, at(500));
    CHECK_FALSE(sends<HangNotice>(part.apply(HangNotice{}, at(600))));
  }

  TEST_CASE("node: a refused connection is retried until the join timeout") {
    Settings settings;
    settings.join_timeout = 10s;
    NodeStateMachine part(Join{}, settings, at(0));
    auto actions = part.start(at(0));
    Time now = at(0);
    int attempts = 0;
    while (!part.has_ended()) {
      REQUIRE(of<Connect>(actions).size() == 1);
      now = std::max(now, of<Connect>(actions)[0].not_before);
      actions = part.apply(ConnectionLost{"connection refused"}, now);
      REQUIRE(++attempts < 30);
    }
    CHECK(now == at(10'000));
    CHECK(of<EndRun>(actions)[0].outcome.reason ==
          "connection refused; gave up after 10 s (join_timeout)");
  }

  TEST_CASE("node: connection problems are reported after 1 s and then every 30 s") {
    Settings settings;
    settings.join_timeout = 100s;
    NodeStateMachine part(Join{}, settings, at(0));
    part.start(at(0));
    std::vector<int> announced;
    for (int now = 0; now < 100'000; now += 100) {
      const auto actions = part.apply(ConnectionLost{"refused"}, at(now));
      if (!of<Announce>(actions).empty()) announced.push_back(now);
      if (now == 1000) {
        REQUIRE(of<Announce>(actions).size() == 1);
        CHECK(of<Announce>(actions)[0].text == "refused; trying again for 99 s");
      }
    }
    CHECK(announced == std::vector{1000, 31'000, 61'000, 91'000});
  }

  TEST_CASE("node: a warning reports that the run has already succeeded without the node") {
    NodeStateMachine part(Join{.run_id = "r"}, Settings{.rejoin_timeout = 7'500ms}, at(0));
    part.start(at(0));
    const auto actions = part.apply(JoinRejected{RunOutcome{}}, at(100));
    REQUIRE(of<Announce>(actions).size() == 1);
    const auto announced = of<Announce>(actions)[0];
    CHECK(announced.is_warning);
    CHECK(announced.text.rfind("the run \"r\" has already succeeded", 0) == 0);
    CHECK(announced.text.find("another --rdzv_id, since etcd keeps the outcome for 15 s") !=
          announced.text.npos);
    CHECK(of<EndRun>(actions).size() == 1);
  }

  TEST_CASE("node: the outcome is announced only by a node that was not part of the run") {
    const RunOutcome failed{.result = RunResult::failed, .reason = "rank 1 failed"};
    struct Row {
      RunOutcome outcome;
      int last_round;
      const char* text;  ///< null: not news
    };
    for (const auto& row : {Row{failed, -1, "has already ended without this node; no workers"},
                            Row{failed, 3, nullptr}, Row{refusal_of("no place"), -1, nullptr}}) {
      NodeStateMachine part(Join{.run_id = "r", .last_round = row.last_round}, Settings{}, at(0));
      part.start(at(0));
      const auto actions = part.apply(JoinRejected{row.outcome}, at(100));
      REQUIRE(of<EndRun>(actions).size() == 1);
      CHECK(of<EndRun>(actions)[0].outcome == row.outcome);
      const auto announced = of<Announce>(actions);
      REQUIRE(announced.size() == (row.text == nullptr ? 0 : 1));
      if (row.text != nullptr) CHECK(announced[0].text.find(row.text) != std::string::npos);
    }
  }

  TEST_CASE("node: an interrupt by the host ends the node even if the rendezvous is lost") {
    auto part = joined();
    part.apply(MessageReceived{kRound}, at(20));
    part.apply(MessageReceived{StopWorkers{0, "a was asked to stop", true, 2}}, at(20));
    auto actions = part.apply(ConnectionLost{"its connection was closed"}, at(30));
    CHECK(of<Connect>(actions).empty());
    CHECK(of<Announce>(actions).empty());
    CHECK(of<EndRun>(actions).empty());  // workers have their grace period
    actions = part.apply(OwnWorkersEnded{}, at(40));
    REQUIRE(of<EndRun>(actions).size() == 1);
    const auto outcome = of<EndRun>(actions)[0].outcome;
    CHECK(outcome.result == RunResult::interrupted);
    CHECK(outcome.scope == OutcomeScope::run);
    CHECK(outcome.signal == 2);
    CHECK(outcome.reason == "a was asked to stop");
  }

  TEST_CASE("node: a waiting notice is a warning unless the last round ended in order") {
    for (const bool is_orderly : {false, true}) {
      auto part = joined();
      const auto is_warning = [&] {
        const auto actions = part.apply(MessageReceived{Waiting{"w"}}, at(20));
        return of<Announce>(actions).at(0).is_warning;
      };
      CHECK_FALSE(is_warning());
      part.apply(MessageReceived{kRound}, at(20));
      part.apply(MessageReceived{StopWorkers{0, "why", is_orderly}}, at(20));
      part.apply(OwnWorkersEnded{}, at(20));
      CHECK(is_warning() != is_orderly);
      CHECK_FALSE(is_warning());
    }
  }

  TEST_CASE("node: six heartbeats are sent per lease") {
    auto part = joined();
    CHECK(part.next_wake() == at(510));
    CHECK(sends<Heartbeat>(part.apply(NodeTimePassed{}, at(510))));
    CHECK(part.next_wake() == at(1010));
  }

  TEST_CASE("node: workers are killed before the lease expires if no response arrives") {
    auto part = running();
    for (int now = 510; now < 2500; now += 500) part.apply(NodeTimePassed{}, at(now));
    // The join was sent at 0 and read later, so the coordinator's lease ends after 3000.
    CHECK(part.next_wake() == at(2500));
    const auto actions = part.apply(NodeTimePassed{}, at(2500));
    REQUIRE(of<EndWorkers>(actions).size() == 1);
    CHECK(of<EndWorkers>(actions)[0].at_once);
    CHECK(of<Disconnect>(actions).size() == 1);
  }

  TEST_CASE("node: a response extends the lease counted from its request") {
    auto part = running();
    part.apply(NodeTimePassed{}, at(510));
    part.apply(MessageReceived{HeartbeatAnswer{1}}, at(900));
    for (int now = 1010; now < 3000; now += 500) part.apply(NodeTimePassed{}, at(now));
    CHECK(part.next_wake() == at(3010));
  }

  TEST_CASE("node: the guardian gets every new end of the lease until the run ends") {
    auto part = joined();
    auto actions = part.apply(MessageReceived{kRound}, at(20));
    CHECK(of<GuardUntil>(actions).empty());  // it was notified at the welcome
    part.apply(NodeTimePassed{}, at(510));
    actions = part.apply(MessageReceived{HeartbeatAnswer{1}}, at(900));
    REQUIRE(of<GuardUntil>(actions).size() == 1);
    CHECK(of<GuardUntil>(actions)[0].end == at(3010));
    actions = part.apply(MessageReceived{Finish{}}, at(1000));
    REQUIRE(of<GuardUntil>(actions).size() == 1);
    CHECK(of<GuardUntil>(actions)[0].end == Time::max());
  }

  TEST_CASE("node: an agent suspended beyond its lease kills its workers first") {
    const std::vector<NodeEvent> firsts = {
        MessageReceived{StopWorkers{0, "another round"}}, MessageReceived{HeartbeatAnswer{1}},
        OwnWorkersFailing{"rank 0 was killed"},           OwnWorkersEnded{},
        AskedToLeave{"was asked to stop by SIGTERM", 15}, NodeTimePassed{}};
    for (const auto& first : firsts) {
      CAPTURE(first.index());
      auto part = running();
      const auto actions = part.apply(first, at(60'000));
      REQUIRE(of<Disconnect>(actions).size() == 1);
      REQUIRE(of<EndWorkers>(actions).size() == 1);
      CHECK(of<EndWorkers>(actions)[0].at_once);
      CHECK(of<Send>(actions).empty());
      CHECK(of<Connect>(actions).size() ==
            (std::holds_alternative<OwnWorkersEnded>(first) ? 1 : 0));
    }
    auto part = running();
    const auto actions = part.apply(ConnectionLost{"closed"}, at(60'000));
    CHECK(of<Disconnect>(actions).empty());
    CHECK(of<EndWorkers>(actions).size() == 1);
  }

  TEST_CASE("node: a node reconnects only after its workers have ended") {
    auto part = running();
    auto actions = part.apply(ConnectionLost{"closed"}, at(100));
    CHECK(of<Connect>(actions).empty());
    CHECK(of<EndWorkers>(actions)[0].at_once);
    actions = part.apply(OwnWorkersEnded{}, at(150));
    CHECK(of<Connect>(actions).size() == 1);
    CHECK_FALSE(sends<WorkersEnded>(actions));
    actions = part.apply(Connected{}, at(200));
    REQUIRE(sends<Join>(actions));
    CHECK(std::get<Join>(of<Send>(actions)[0].message).last_round == 0);
  }

  TEST_CASE("node: the run ends on the node if the rendezvous stays lost") {
    auto part = joined();
    auto actions = part.apply(ConnectionLost{"its connection was closed"}, at(100));
    Time now = at(100);
    while (!part.has_ended()) {
      now = std::max(now, of<Connect>(actions)[0].not_before);
      actions = part.apply(ConnectionLost{"connection refused"}, now);
    }
    CHECK(now == at(30'100));
    CHECK(of<EndRun>(actions)[0].outcome.result == RunResult::no_rendezvous);
  }

  TEST_CASE("node: a rendezvous that accepts but does not respond is abandoned after 10 s") {
    NodeStateMachine part(Join{}, Settings{}, at(0));
    part.start(at(0));
    part.apply(Connected{}, at(0));
    CHECK(part.next_wake() == at(10'000));
    const auto actions = part.apply(NodeTimePassed{}, at(10'000));
    CHECK(of<Disconnect>(actions).size() == 1);
    CHECK(of<Connect>(actions).size() == 1);
  }

  TEST_CASE("node: the message about a lost rendezvous contains the address once") {
    NodeStateMachine part(Join{.name = "a"}, Settings{}, at(0));
    part.start(at(0));
    part.apply(Connected{.where = "the rendezvous at a:1"}, at(0));
    part.apply(MessageReceived{Welcome{3s}}, at(10));
    const auto actions =
        part.apply(ConnectionLost{"the rendezvous at a:1: its connection was closed"}, at(20));
    CHECK(of<Announce>(actions).at(0).text ==
          "the rendezvous is lost: its connection was closed (at a:1)");
  }

  TEST_CASE("node: the node waits for a hung rendezvous until the limit") {
    auto part = joined();
    auto actions = part.apply(ConnectionLost{"its connection was closed"}, at(100));
    CHECK(part.give_up() == at(30'100));
    Time now = at(100);
    while (!part.has_ended()) {
      now = std::max(now, of<Connect>(actions)[0].not_before);
      part.apply(Connected{.where = "the rendezvous at a:1"}, now);
      REQUIRE(part.next_wake());
      now = *part.next_wake();
      actions = part.apply(NodeTimePassed{}, now);
    }
    CHECK(now == at(30'100));
    // The last wait was cut off before a response was possible.
    CHECK(of<EndRun>(actions)[0].outcome.reason ==
          "the rendezvous was lost (its connection was closed) and could not be reached again: the "
          "rendezvous at a:1 accepts connections but has not responded for 9.6 s: it hangs or is "
          "another program, such as torchrun; gave up after 30 s (rejoin_timeout)");
  }

  TEST_CASE("node: the final error is that of the last complete connection attempt") {
    for (const bool is_connected : {false, true}) {
      NodeStateMachine part(Join{}, Settings{.join_timeout = 1s}, at(0));
      part.start(at(0));
      auto actions = part.apply(ConnectionLost{"connection refused"}, at(990));
      CHECK(of<Connect>(actions)[0].not_before == at(1000));
      if (is_connected) part.apply(Connected{.where = "the rendezvous at a:1"}, at(1000));
      actions = is_connected ? part.apply(NodeTimePassed{}, at(1000))
                             : part.apply(ConnectionLost{"no answer"}, at(1000));
      REQUIRE(part.has_ended());
      CHECK(of<EndRun>(actions)[0].outcome.reason ==
            "connection refused; gave up after 1 s (join_timeout)");
    }
  }

  TEST_CASE("node: a leaving node notifies the coordinator and ends after its workers") {
    auto part = running();
    auto actions = part.apply(AskedToLeave{"was asked to stop by SIGTERM", 15}, at(100));
    CHECK(sends<Leave>(actions));
    CHECK_FALSE(part.has_ended());
    actions = part.apply(OwnWorkersEnded{}, at(200));
    CHECK(sends<WorkersEnded>(actions));
    const auto outcome = of<EndRun>(actions)[0].outcome;
    CHECK(outcome.result == RunResult::interrupted);
    CHECK(outcome.signal == 15);
  }

  TEST_CASE("node: a node with leftover processes leaves before it reports the workers' end") {
    auto part = running();
    const auto actions = part.apply(OwnWorkersEnded{.still_running = "process 7"}, at(100));
    const auto sent = of<Send>(actions);
    REQUIRE(sent.size() == 2);
    CHECK(std::get<Leave>(sent[0].message).reason == "cannot start workers again: process 7");
    CHECK(std::get<WorkersEnded>(sent[1].message).were_asked);
    CHECK(of<Resign>(actions).size() == 1);
    REQUIRE(of<EndRun>(actions).size() == 1);
    CHECK(of<EndRun>(actions)[0].outcome.result == RunResult::interrupted);
  }

  TEST_CASE("node: a successful node with leftover processes does not leave") {
    const OwnWorkersEnded ended{.have_succeeded = true, .still_running = "process 7"};
    for (const bool is_host : {false, true}) {
      auto part = running(is_host);
      const auto actions = part.apply(ended, at(100));
      CHECK_FALSE(sends<Leave>(actions));
      CHECK(of<Resign>(actions).empty());
      CHECK(sends<WorkersEnded>(actions));
      const RunOutcome success{.result = RunResult::succeeded};
      const auto end = of<EndRun>(part.apply(MessageReceived{Finish{success}}, at(200)));
      REQUIRE(end.size() == 1);
      CHECK(end[0].outcome.result == RunResult::succeeded);
    }
  }

  TEST_CASE("node: a successful node with leftover processes leaves at the next round") {
    auto part = running();
    part.apply(OwnWorkersEnded{.have_succeeded = true, .still_running = "process 7"}, at(100));
    auto next = kRound;
    next.round = 1;
    const auto actions = part.apply(MessageReceived{next}, at(200));
    CHECK(of<StartWorkers>(actions).empty());
    const auto sent = of<Send>(actions);
    REQUIRE(sent.size() == 2);
    CHECK(std::holds_alternative<Leave>(sent[0].message));
    CHECK(std::get<WorkersEnded>(sent[1].message) == WorkersEnded{.round = 1, .were_asked = true});
    CHECK(part.has_ended());
  }

  TEST_CASE("node: a host asked to stop stays until the run has an outcome") {
    auto part = running(true);
    part.apply(AskedToLeave{"was asked to stop by SIGTERM", 15}, at(100));
    part.apply(OwnWorkersEnded{}, at(200));
    CHECK_FALSE(part.has_ended());
    part.apply(MessageReceived{Finish{}}, at(300));
    CHECK(part.has_ended());
  }

  TEST_CASE("node: a host asked to stop first joins so that other nodes are notified") {
    for (const bool is_connected : {false, true}) {
      NodeStateMachine part({.run_id = "r", .name = "a", .is_host = true}, {}, at(0));
      part.start(at(0));
      if (is_connected) part.apply(Connected{}, at(1));
      CHECK(part.apply(AskedToLeave{"was asked to stop by SIGTERM", 15}, at(2)).empty());
      if (!is_connected) part.apply(Connected{}, at(3));
      CHECK(sends<Leave>(part.apply(MessageReceived{Welcome{.lease = 3s}}, at(4))));
      CHECK_FALSE(part.has_ended());
      part.apply(MessageReceived{Finish{}}, at(5));
      CHECK(part.has_ended());
    }
  }

  TEST_CASE("node: a node asked to stop before it has joined ends at once") {
    NodeStateMachine part({.run_id = "r", .name = "b"}, {}, at(0));
    part.start(at(0));
    part.apply(AskedToLeave{"was asked to stop by SIGTERM", 15}, at(1));
    CHECK(part.has_ended());
  }

  TEST_CASE("node: an outcome during a round takes effect when the workers have ended") {
    auto part = running();
    auto actions = part.apply(MessageReceived{Finish{{.reason = "over"}}}, at(100));
    CHECK(of<EndWorkers>(actions).size() == 1);
    CHECK(of<EndRun>(actions).empty());
    actions = part.apply(OwnWorkersEnded{}, at(200));
    CHECK(of<EndRun>(actions)[0].outcome.reason == "over");
  }

  TEST_CASE("node: a request about an earlier round is ignored") {
    auto part = running();
    CHECK(of<EndWorkers>(part.apply(MessageReceived{StopWorkers{-1, "late"}}, at(100))).empty());
    CHECK(of<EndWorkers>(part.apply(MessageReceived{StopWorkers{0, "now"}}, at(100))).size() == 1);
  }

  TEST_CASE("node: a round that is out of order is ignored") {
    auto part = running();
    part.apply(OwnWorkersEnded{}, at(100));
    const auto actions = part.apply(MessageReceived{kRound}, at(200));
    CHECK(of<StartWorkers>(actions).empty());
    CHECK(of<Disconnect>(actions).size() == 1);
  }

  TEST_CASE("node: a round without a rank for the node is ignored") {
    const auto changed = [](void (*change)(RoundFormed&)) {
      auto round = kRound;
      change(round);
      return round;
    };
    for (const auto& round : {changed([](RoundFormed& r) { r.nodes.clear(); }),
                              changed([](RoundFormed& r) { r.node_rank = -1; }),
                              changed([](RoundFormed& r) { r.node_rank = 1; }),
                              changed([](RoundFormed& r) { r.nodes[0].role = "another"; }),
                              changed([](RoundFormed& r) { r.nodes[0].local_world_size = 2; })}) {
      auto part = joined();
      const auto actions = part.apply(MessageReceived{round}, at(20));
      CHECK(of<StartWorkers>(actions).empty());
      CHECK(of<Disconnect>(actions).size() == 1);
      CHECK(of<Connect>(actions).size() == 1);
    }
  }

  TEST_CASE("node: an unauthenticated refusal ends the node only when repeated for 30 s") {
    NodeStateMachine part(Join{.name = "a"}, Settings{}, at(0));
    part.start(at(0));
    const MessageReceived unproven{Refused{"unknown secret"}, false};
    for (const int seconds : {0, 1, 29}) {
      CAPTURE(seconds);
      part.apply(Connected{}, at(seconds * 1000));
      const auto actions = part.apply(unproven, at(seconds * 1000 + 1));
      CHECK(of<EndRun>(actions).empty());
      CHECK(of<Disconnect>(actions).size() == 1);
      CHECK(of<Connect>(actions).size() == 1);
      if (seconds == 1)
        CHECK(of<Announce>(actions)[0].text == "unknown secret; trying again for 29 s");
    }
    SUBCASE("the refusal is repeated") {
      part.apply(Connected{}, at(30'002));
      const auto actions = part.apply(unproven, at(30'003));
      REQUIRE(of<EndRun>(actions).size() == 1);
      CHECK(of<EndRun>(actions)[0].outcome.scope == OutcomeScope::node);
      CHECK(of<EndRun>(actions)[0].outcome.reason == "this node was refused: unknown secret");
    }
    SUBCASE("no process listens meanwhile") {
      part.apply(ConnectionLost{"connection refused"}, at(30'002));
      part.apply(Connected{}, at(31'000));
      CHECK(of<EndRun>(part.apply(unproven, at(31'001))).empty());
    }
    SUBCASE("the coordinator gets the port") {
      part.apply(Connected{}, at(30'002));
      CHECK(of<EndRun>(part.apply(MessageReceived{Welcome{3s}}, at(30'003))).empty());
    }
  }

  TEST_CASE("node: an authenticated refusal ends the node with the reason") {
    NodeStateMachine part(Join{}, Settings{}, at(0));
    part.start(at(0));
    part.apply(Connected{}, at(0));
    const auto actions = part.apply(MessageReceived{Refused{"wrong run"}}, at(10));
    CHECK(of<EndRun>(actions)[0].outcome.reason == "this node was refused: wrong run");
    CHECK(of<EndRun>(actions)[0].outcome.scope == OutcomeScope::node);
  }
}

}  // namespace node_state_machine_test
