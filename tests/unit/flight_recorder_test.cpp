#include "rendezvous/control/flight_recorder.hpp"

#include "rendezvous/control/flight_log.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <limits>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace flight_recorder_test {

using namespace ddprun::control;
using namespace std::chrono_literals;

namespace {

using Clock = FlightRecorder::Clock;

constexpr std::array kCalls = {"all_reduce", "send", "barrier"};
constexpr std::array kTypes = {"float32", "int32"};
constexpr std::array kReductions = {"sum", "max"};
constexpr FlightCall kBarrier{.call = 2, .type = FlightCall::kNone};

FlightCall all_reduce(std::uint64_t elements) {
  return {.call = 0, .type = 0, .element_bytes = 4, .reduction = 0, .elements = elements};
}

std::optional<FlightRecorder> begin(const ControlPage& page, const FlightGroup& group,
                                    int local_rank = 0) {
  return FlightRecorder::begin(ControlPage::attach_again(page.fd(), local_rank), local_rank, group,
                               {kCalls, kTypes, kReductions});
}

}  // namespace

TEST_SUITE("flight recorder") {
  TEST_CASE("flight recorder: calls are read with text and state and age") {
    const auto page = ControlPage::create(2);
    auto recorder = begin(page, {.name = "pair", .rank = 1, .size = 2, .members = {3, 5}}, 1);
    REQUIRE(recorder);
    CHECK(read_flights(page, 1, Clock::now()).groups[0].state == GroupState::meeting);
    recorder->note(GroupState::open);
    const auto start = Clock::now();
    const auto first = recorder->enter(all_reduce(100), start);
    const auto second = recorder->enter({.call = 1,
                                         .type = 1,
                                         .element_bytes = 4,
                                         .is_message = true,
                                         .elements = 7,
                                         .peer = 1,
                                         .tag = 9},
                                        start);
    recorder->end(first, FlightState::done);
    recorder->end(second, FlightState::failed);
    recorder->enter(kBarrier, start + 1s);

    CHECK(read_flights(page, 0, Clock::now()) == WorkerFlights{});
    const auto read = read_flights(page, 1, start + 4s);
    REQUIRE(read.groups.size() == 1);
    const GroupFlightRecord& group = read.groups[0];
    CHECK(group.name == "pair");
    CHECK(group.rank == 1);
    CHECK(group.size == 2);
    CHECK(group.members == std::vector<int>{3, 5});
    CHECK(group.state == GroupState::open);
    CHECK(group.entered == 2);
    REQUIRE(group.flights.size() == 3);
    CHECK(group.flights[0].call == "all_reduce(100 x float32, sum)");
    CHECK(group.flights[0].bytes == 400);
    CHECK(group.flights[0].state == FlightState::done);
    CHECK(group.flights[0].entered_ago == 4s);
    CHECK(group.flights[0].ended_ago <= 4s);
    CHECK(group.flights[1].call == "send(7 x int32, rank 5, tag 9)");
    CHECK(group.flights[1].is_message);
    CHECK(group.flights[1].state == FlightState::failed);
    CHECK(group.flights[2] == Flight{.number = 1, .call = "barrier()", .entered_ago = 3s});
  }

  TEST_CASE("flight recorder: the waits of all groups of a worker add up") {
    const auto page = ControlPage::create(2);
    CHECK(read_activity(page, 0) == CallActivity{});
    auto first = begin(page, {.name = "first"}, 1);
    auto second = begin(page, {.name = "second"}, 1);
    REQUIRE(first);
    REQUIRE(second);
    first->add_wait(4ms);
    second->add_wait(8ms);
    FlightRecorder moved = std::move(*first);
    moved.add_wait(0ms);
    moved.add_wait(1ms);
    CHECK(read_activity(page, 1) == CallActivity{.waits = 4, .waited = 13ms});
    CHECK(read_activity(page, 0) == CallActivity{});
  }

  TEST_CASE("flight recorder: a negative sum of waits counts as none") {
    const auto page = ControlPage::create(1);
    FlightArea::of(page, 0).waited.store(std::numeric_limits<std::int64_t>::min());
    CHECK(read_activity(page, 0).waited == 0ms);
    FlightArea::of(page, 0).waited.store(std::numeric_limits<std::int64_t>::max());
    CHECK(read_activity(page, 0).waited == std::chrono::nanoseconds::max());
  }

  TEST_CASE("flight recorder: the end of an overwritten call does not change another call") {
    const auto page = ControlPage::create(1);
    auto recorder = begin(page, {.name = "long"});
    const auto first = recorder->enter(all_reduce(1), Clock::now());
    for (std::size_t i = 0; i < kFlightsMax; ++i) recorder->enter(all_reduce(2), Clock::now());
    recorder->end(first, FlightState::failed);
    const auto read = read_flights(page, 0, Clock::now());
    for (const auto& flight : read.groups.at(0).flights)
      CHECK(flight.state == FlightState::entered);
  }

  TEST_CASE("flight recorder: the last 256 calls of a group are kept") {
    const auto page = ControlPage::create(1);
    auto recorder = begin(page, {.name = "long"});
    for (std::uint64_t i = 0; i < kFlightsMax + 10; ++i) {
      recorder->end(recorder->enter(all_reduce(i), Clock::now()), FlightState::done);
    }
    const auto group = read_flights(page, 0, Clock::now()).groups.at(0);
    CHECK(group.entered == kFlightsMax + 10);
    REQUIRE(group.flights.size() == kFlightsMax);
    CHECK(group.flights.front().number == 10);
    CHECK(group.flights.back().number == kFlightsMax + 9);
  }

  TEST_CASE("flight recorder: a group is readable only after its description is complete") {
    const auto page = ControlPage::create(1);
    FlightLog& first = FlightArea::of(page, 0).logs[0];
    REQUIRE(first.take(FlightLog::free));
    CHECK(read_flights(page, 0, Clock::now()).groups.empty());
    const auto second = begin(page, {.name = "second"});
    const auto worker = read_flights(page, 0, Clock::now());
    REQUIRE(worker.groups.size() == 1);
    CHECK(worker.groups[0].name == "second");
  }

  TEST_CASE("flight recorder: a killed worker's record can be read") {
    const auto page = ControlPage::create(1);
    const pid_t pid = ::fork();
    if (pid == 0) {
      auto recorder = begin(page, {.name = "lost"});
      recorder->enter(all_reduce(5), Clock::now());
      ::raise(SIGKILL);
    }
    CHECK(::waitpid(pid, nullptr, 0) == pid);
    const auto group = read_flights(page, 0, Clock::now()).groups.at(0);
    REQUIRE(group.flights.size() == 1);
    CHECK(group.flights[0].state == FlightState::entered);
  }

  TEST_CASE("flight recorder: a group over the limit is recorded once another group ends") {
    const auto page = ControlPage::create(1);
    std::vector<std::optional<FlightRecorder>> recorders;
    for (std::size_t i = 0; i < kFlightGroupsMax; ++i)
      recorders.push_back(begin(page, {.name = std::to_string(i)}));
    CHECK_FALSE(begin(page, {.name = "one more"}));
    CHECK(read_flights(page, 0, Clock::now()).unrecorded_groups == 1);
    recorders[3]->enter(kBarrier, Clock::now());
    recorders[3].reset();
    recorders[2].reset();
    const auto next = begin(page, {.name = "next"});
    REQUIRE(next);
    const auto groups = read_flights(page, 0, Clock::now()).groups;
    CHECK(groups.size() == kFlightGroupsMax);
    for (const auto& group : groups) {
      CHECK(group.name != "3");  // it had ended first
      if (group.name == "next") CHECK(group.flights.empty());
    }
  }

  TEST_CASE("flight recorder: only the last of several groups with the same name is read") {
    const auto page = ControlPage::create(1);
    for (const int calls : {1, 2, 0}) {
      auto recorder = begin(page, {.name = "again"});
      for (int i = 0; i < calls; ++i) recorder->enter(kBarrier, Clock::now());
    }
    const auto groups = read_flights(page, 0, Clock::now()).groups;
    REQUIRE(groups.size() == 1);
    CHECK(groups[0].entered == 0);
  }

  TEST_CASE("flight recorder: names and member lists are cut at their limits") {
    const auto page = ControlPage::create(1);
    const auto recorder = begin(page, {.name = std::string(200, 'n'),
                                       .size = 300,
                                       .members = std::vector<int>(kGroupMembersMax + 1)});
    const auto group = read_flights(page, 0, Clock::now()).groups.at(0);
    CHECK(group.name == std::string(kGroupNameBytesMax, 'n'));
    CHECK(group.members.empty());
  }

  TEST_CASE(
      "flight recorder: read_flights() reports a damaged record and returns no groups of it") {
    struct Row {
      void (*damage)(FlightLog&);
      const char* reported;
    };
    const std::array rows = {
        Row{[](FlightLog& log) { log.use = 77; }, "use 77"},
        Row{[](FlightLog& log) { log.state = 4; }, "state 4 of a group"},
        Row{[](FlightLog& log) { log.size = 0; }, "rank 1 of a group of 0"},
        Row{[](FlightLog& log) { log.rank = 2; }, "rank 2 of a group of 2"},
        Row{[](FlightLog& log) { log.rank = -1; }, "rank -1 of a group of 2"},
        Row{[](FlightLog& log) { log.members_listed = kGroupMembersMax + 1; },
            "lists of a group beyond their bounds"},
        Row{[](FlightLog& log) { log.first_type = kFlightNamesMax + 1; },
            "lists of a group beyond their bounds"},
        Row{[](FlightLog& log) { log.first_reduction = 0xffffffff; },
            "lists of a group beyond their bounds"},
        Row{[](FlightLog& log) { log.members[1] = -9; }, "rank -9 among a group's members"},
    };
    for (const auto& row : rows) {
      CAPTURE(row.reported);
      const auto page = ControlPage::create(1);
      const auto recorder = begin(page, {.name = "pair", .rank = 1, .size = 2, .members = {3, 5}});
      CHECK_FALSE(read_flights(page, 0, Clock::now()).damage);
      row.damage(FlightArea::of(page, 0).logs[0]);
      const auto worker = read_flights(page, 0, Clock::now());
      CHECK(worker == WorkerFlights{.unrecorded_groups = 1, .damage = row.reported});
    }
  }

  TEST_CASE("flight recorder: invalid times and texts are replaced by valid ones") {
    constexpr auto kFirst = std::numeric_limits<std::int64_t>::min();
    constexpr auto kLast = std::numeric_limits<std::int64_t>::max();
    const auto page = ControlPage::create(1);
    auto recorder = begin(page, {.name = "a\nb\x7f"});
    recorder->end(recorder->enter(all_reduce(1), Clock::now()), FlightState::done);
    FlightLog& log = FlightArea::of(page, 0).logs[0];
    log.names[0].fill('\x1b');
    FlightArea::of(page, 0).unrecorded_groups = -5;
    for (const auto entered : {kFirst, std::int64_t{-1}, kLast}) {
      for (const auto ended : {kFirst, std::int64_t{-1}, kLast}) {
        log.entries[0].entered = entered;
        log.entries[0].ended = ended;
        const auto worker = read_flights(page, 0, Clock::now());
        CHECK(worker.unrecorded_groups == 0);
        CHECK(worker.groups.at(0).name == "a?b?");
        const auto& flight = worker.groups[0].flights.at(0);
        CHECK(flight.call == std::string(kFlightNameBytes, '?') + "(1 x float32, sum)");
        CHECK(flight.ended_ago >= 0s);
        CHECK(flight.entered_ago >= flight.ended_ago);
      }
    }
  }

  TEST_CASE("flight recorder: concurrent reads are consistent") {
    const auto page = ControlPage::create(1);
    auto recorder = begin(page, {.name = "busy"});
    std::atomic<bool> is_over = false;
    std::thread writer([&] {
      for (std::uint64_t i = 0; !is_over; ++i) {
        const Clock::time_point then{std::chrono::nanoseconds(i)};
        recorder->end(recorder->enter(all_reduce(i), then), FlightState::done);
      }
    });
    std::size_t seen = 0;
    while (seen < 100'000) {
      const auto read = read_flights(page, 0, Clock::time_point(24h));
      for (const auto& flight : read.groups.at(0).flights) {
        ++seen;
        const bool is_whole = flight.bytes == 4 * flight.number &&
                              flight.entered_ago.count() + static_cast<long>(flight.number) ==
                                  std::chrono::nanoseconds(24h).count();
        if (!is_whole) CHECK_MESSAGE(is_whole, flight.call);
      }
    }
    is_over = true;
    writer.join();
  }
}

}  // namespace flight_recorder_test
