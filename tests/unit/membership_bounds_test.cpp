// Any data of nodes fits into a message after it is cut.
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/codec.hpp"
#include "rendezvous/membership/node_state_machine.hpp"
#include "rendezvous/membership/notices.hpp"
#include "rendezvous/membership/round_failures.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <string>

namespace membership_bounds_test {

using namespace ddprun::membership;
using ddprun::control::RankFlights;
using ddprun::test::CoordinationDriver;

namespace {

const std::string kEndless(5 << 20, 'x');

Failure endless_failure() {
  return {.ran_seconds = 60,
          .description = kEndless,
          .node = kEndless,
          .exit = WorkerExited{.error_message = kEndless}};
}

std::size_t bytes_of(const auto& message) {
  std::string bytes;
  append_message(bytes, message);
  return bytes.size() - sizeof(std::uint32_t);
}

/// Of all messages sent by the last event.
template <typename... Messages>
std::size_t longest_of(const CoordinationDriver& driver, NodeId node) {
  std::size_t longest = 0;
  const auto measure = [&](const auto& messages) {
    for (const auto& message : messages)
      longest = std::max(longest, bytes_of(CoordinatorMessage(message)));
  };
  (measure(driver.sent_to<Messages>(node)), ...);
  return longest;
}

}  // namespace

TEST_SUITE("membership bounds") {
  TEST_CASE("membership bounds: long texts of a node are cut before they are sent") {
    for (const auto& message :
         {NodeMessage(WorkersFailing{.reason = kEndless}),
          NodeMessage(SlowRankNotice{.doing = kEndless, .peer = kEndless}),
          NodeMessage(Leave{.reason = kEndless}),
          NodeMessage(WorkersEnded{.not_started = kEndless,
          .failures = std::vector(10, endless_failure()),
          .flights = {{.worker = {.damage = kEndless}}}}),
          NodeMessage(HangNotice{.ranks = std::vector<MissingRank>(100, {0, kEndless})}),
          NodeMessage(
              StacksNotice{.stacks = std::vector<StacksTaken>(100, {.lines = {kEndless}})})}) {
      CHECK(bytes_of(within_bounds(message)) <= kMessageBytesMax / 2);
    }
    NodeStateMachine part(Join{}, Settings{}, CoordinationDriver::at(0));
    part.start(CoordinationDriver::at(0));
    part.apply(Connected{}, CoordinationDriver::at(0));
    part.apply(MessageReceived{Welcome{}}, CoordinationDriver::at(0));
    part.apply(MessageReceived{RoundFormed{.nodes = {{.role = "default"}}}},
               CoordinationDriver::at(0));
    const auto actions =
        part.apply(OwnWorkersEnded{.failures = {endless_failure()}}, CoordinationDriver::at(1));
    REQUIRE(actions.size() == 1);
    CHECK(bytes_of(std::get<Send>(actions[0]).message) < 3000);
  }

  TEST_CASE("membership bounds: the first stacks of a node that fit are kept with short lines") {
    const StacksTaken taken{.lines = std::vector<std::string>(10, std::string(1000, 'x'))};
    const auto message = within_bounds(StacksNotice{.stacks = std::vector(100, taken)});
    const auto& notice = std::get<StacksNotice>(message);
    CHECK(notice.stacks.size() > 5);
    CHECK(notice.stacks.size() < 20);
    CHECK(notice.stacks[0].lines == std::vector(10, std::string(253, 'x') + "..."));
    CHECK(bytes_of(message) <= kStacksBytesMax + 200);
    CHECK(notice.stacks.back().problems ==
          std::vector{"the stacks of " + std::to_string(100 - notice.stacks.size()) +
                      " more ranks of its node are too long to be sent"});
  }

  TEST_CASE("membership bounds: flight records of a node keep first ranks and last calls") {
    std::vector<RankFlights> flights(1024);
    for (int rank = 0; rank < 1024; ++rank) {
      auto& group = flights[static_cast<std::size_t>(rank)].worker.groups.emplace_back();
      flights[static_cast<std::size_t>(rank)].rank = rank;
      for (std::uint64_t number = 0; number <= kGroupCallsMax; ++number)
        group.flights.push_back({.number = number, .call = "barrier()"});
    }
    const auto sent = std::get<WorkersEnded>(within_bounds(WorkersEnded{.flights = flights}));
    CHECK(bytes_of(NodeMessage(sent)) <= kFlightsBytesMax + 100);
    REQUIRE(sent.flights.size() > 100);
    const auto& last = sent.flights.back();
    CHECK(last.rank == static_cast<int>(sent.flights.size()) - 1);
    REQUIRE(last.worker.groups.at(0).flights.size() == kGroupCallsMax);
    CHECK(last.worker.groups.at(0).flights.back().number == kGroupCallsMax);
  }

  TEST_CASE(
      "membership bounds: flight records of all nodes are sorted by rank and limited in size") {
    RoundFailures round;
    for (int rank = 99; rank >= 0; --rank)
      round.add_flights({{.rank = rank, .worker = {.damage = std::string(10'000, 'd')}}});
    RunOutcome outcome;
    round.add_to(outcome);
    REQUIRE(outcome.flights.size() == kAllFlightsBytesMax / 10'020);
    CHECK(outcome.flights.back().rank == 99);
    CHECK(outcome.flights.front().rank == 100 - static_cast<int>(outcome.flights.size()));
  }

  TEST_CASE("membership bounds: a cut text is marked and ends with a whole character") {
    const std::string umlauts = "\xc3\xa4\xc3\xb6\xc3\xbc";
    std::string text;
    while (text.size() <= kReasonBytesMax) text += umlauts;
    const auto cut = std::get<Leave>(within_bounds(Leave{.reason = text})).reason;
    CHECK(cut.size() > kReasonBytesMax - 3);
    CHECK(cut.size() <= kReasonBytesMax);
    CHECK(cut.ends_with("..."));
    CHECK((static_cast<unsigned char>(cut[cut.size() - 4]) & 0xC0) == 0x80);
    CHECK(std::get<Leave>(within_bounds(Leave{.reason = "short"})).reason == "short");
  }

  TEST_CASE("membership bounds: only the first exits that fit into the limit are kept") {
    std::vector<Failure> failures(kFailuresMax + 1);
    for (auto& failure : failures)
      failure.exit = WorkerExited{.error_message = std::string(kExitBytesMax / 5, 'r')};
    bound_failures(failures);
    REQUIRE(failures.size() == kFailuresMax);
    CHECK(failures[3].exit);
    CHECK_FALSE(failures[4].exit);
  }

  TEST_CASE("membership bounds: the largest outcome fits into a message") {
    constexpr int kNodes = 20;
    Settings settings{.run_id = "run", .nodes_min = kNodes, .nodes_max = kNodes};
    CoordinationDriver driver(settings);
    for (NodeId node = 1; node <= kNodes; ++node) driver.join(node, std::to_string(node), 0);
    driver.send(1, WorkersFailing{0, kEndless}, 1);
    CHECK(longest_of<StopWorkers>(driver, 2) > 1000);
    CHECK(longest_of<StopWorkers>(driver, 2) <= kMessageBytesMax);
    for (NodeId node = 1; node <= kNodes; ++node) {
      const std::vector failures(5, endless_failure());
      driver.send(node, WorkersEnded{.round = 0, .failures = failures}, 2);
    }
    REQUIRE(driver.sent_to<Finish>(1).size() == 1);
    CHECK(driver.sent_to<Finish>(1)[0].outcome.failures.size() == kFailuresMax);
    CHECK(longest_of<Finish>(driver, 1) <= kMessageBytesMax);
  }

  TEST_CASE("membership bounds: the largest round fits into a message") {
    const std::string name(kNameBytesMax, 'n');
    const RoundFormed formed{
        .nodes = std::vector(kRoundNodesMax,
                             NodePlace{name, name, 1, std::string(kAddressBytesMax, '1'), true})};
    CHECK(bytes_of(CoordinatorMessage(formed)) <= kMessageBytesMax);
  }

  TEST_CASE("membership bounds: names beyond a limit are counted instead of listed") {
    const std::vector<std::string> names(kNamesListedMax + 7, std::string(kNameBytesMax, 'n'));
    const auto text = describe_waiting(names, {}, Settings{});
    CHECK(text.ends_with("n and 7 more)"));
  }
}

}  // namespace membership_bounds_test
