// Successful exits of ranks for which others wait.
#include "launcher/agent/early_exit.hpp"

#include "launcher/report/event_text.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace early_exit_test {

using namespace ddprun;
using namespace std::chrono_literals;
using control::Flight;
using control::FlightState;
using control::GroupFlightRecord;
using control::GroupState;

namespace {

constexpr std::chrono::system_clock::time_point kReadAt{100s};

/// An exit one second before the flights were read.
WorkerExited exit_of(int rank, int code = 0) {
  WorkerExited exit;
  exit.ended_at = kReadAt - 1s;
  exit.rank = rank;
  exit.pid = 100 + rank;
  exit.exit_code = code;
  return exit;
}

/// Group "default" of four ranks after a number of barriers; the last one is pending if `waits`.
GroupFlightRecord after(std::uint64_t entered, GroupState state, bool waits = false) {
  GroupFlightRecord group{.name = "default", .size = 4, .state = state, .entered = entered};
  for (std::uint64_t number = 0; number < entered; ++number) {
    const bool is_last = number + 1 == entered;
    group.flights.push_back({.number = number,
                             .call = "barrier()",
                             .state = waits && is_last ? FlightState::entered : FlightState::done});
  }
  return group;
}

GroupFlightRecord waiting(std::uint64_t entered) {
  return after(entered, GroupState::open, true);
}

RankFlights rank(int number, std::vector<GroupFlightRecord> groups) {
  return {number, {.groups = std::move(groups)}};
}

std::string before(const std::vector<WorkerExited>& exits,
                   const std::vector<RankFlights>& flights) {
  const auto early_exit = find_early_exit(exits, flights, kReadAt);
  return early_exit ? std::to_string(exits[early_exit->exit].rank) + " " + early_exit->before
                    : "none";
}

}  // namespace

TEST_SUITE("early_exit") {
  TEST_CASE("early exit: an exit before a collective in which others wait is detected") {
    CHECK(before({exit_of(1)}, {rank(0, {waiting(3)}), rank(1, {after(2, GroupState::left)}),
                                rank(2, {waiting(3)})}) ==
          "1 before it entered collective 2 of group \"default\", barrier(), in which ranks 0, 2 "
          "wait");
  }

  TEST_CASE("early exit: an exit before a group creation in which others wait is detected") {
    CHECK(
        before({exit_of(3), exit_of(1)}, {rank(0, {after(0, GroupState::meeting)}), rank(1, {}),
                                          rank(2, {after(0, GroupState::meeting)}), rank(3, {})}) ==
        "3 before it made group \"default\", where ranks 0, 2 wait for it");
    CHECK(before({exit_of(1)}, {rank(0, {after(0, GroupState::meeting)}), rank(1, {})}) ==
          "1 before it made group \"default\", where rank 0 waits for it");
  }

  TEST_CASE("early exit: a rank that goes on after a failed wait does not wait") {
    struct Row {
      std::chrono::milliseconds failed_ago;
      std::vector<WorkerExited> exits;
      std::string expected;
    };
    const std::string found =
        "1 before it entered collective 2 of group \"default\", barrier(), in which ranks 0, 2 "
        "wait";
    const std::vector<Row> table = {
        // The exit has ended the waits, or the departure of its rank shortly before.
        {900ms, {exit_of(1)}, found},
        {1050ms, {exit_of(1)}, found},
        {1500ms, {exit_of(1)}, "none"},
        // A timeout has made one of them fail, and the other one continues.
        {1500ms,
         {exit_of(1), exit_of(2, 1)},
         "1 before it entered collective 2 of group \"default\", barrier(), in which rank 2 waits"},
        {900ms, {exit_of(1), exit_of(0), exit_of(2)}, "none"},
    };
    for (const auto& row : table) {
      CAPTURE(row.failed_ago.count());
      auto failed = waiting(3);
      failed.state = GroupState::failed;
      failed.flights.back().state = FlightState::failed;
      failed.flights.back().ended_ago = row.failed_ago;
      const std::vector<RankFlights> flights = {
          rank(0, {failed}), rank(1, {after(2, GroupState::open)}), rank(2, {failed})};
      CHECK(before(row.exits, flights) == row.expected);
      // The exiting rank had failed, too, or had aborted the group.
      auto aborted = after(2, GroupState::failed);
      CHECK(before(row.exits, {rank(0, {failed}), rank(1, {aborted}), rank(2, {failed})}) ==
            "none");
    }
  }

  TEST_CASE("early exit: ranks that have ended successfully no longer wait") {
    const std::vector<RankFlights> flights = {
        rank(0, {waiting(3)}), rank(1, {after(2, GroupState::left)}), rank(2, {waiting(3)})};
    CHECK(before({exit_of(0), exit_of(2), exit_of(1)}, flights) == "none");
    const std::string text =
        "1 before it entered collective 2 of group \"default\", barrier(), in which rank 2 waits";
    CHECK(before({exit_of(0), exit_of(1)}, flights) == text);
    CHECK(before({exit_of(0), exit_of(2, 1), exit_of(1)}, flights) == text);
  }

  TEST_CASE("early exit: an exit after the last pending collective is not reported") {
    CHECK(before({exit_of(1)}, {rank(0, {waiting(3)}), rank(1, {after(3, GroupState::left)})}) ==
          "none");
    CHECK(before({exit_of(1)}, {rank(0, {after(5, GroupState::open)}),
                                rank(1, {after(3, GroupState::left)})}) == "none");
    CHECK(before({exit_of(1)}, {}) == "none");
    CHECK(before({}, {rank(0, {waiting(3)}), rank(1, {after(2, GroupState::open)})}) == "none");
  }

  TEST_CASE("early exit: a failed or stopped rank is not reported") {
    const std::vector<RankFlights> flights = {rank(0, {waiting(3)}),
                                              rank(1, {after(2, GroupState::left)})};
    CHECK(before({exit_of(1, 1)}, flights) == "none");
    auto stopped = exit_of(1);
    stopped.was_stopped = true;
    CHECK(before({stopped}, flights) == "none");
  }

  TEST_CASE("early exit: no rank is reported if flight records are incomplete") {
    auto many = rank(1, std::vector<GroupFlightRecord>(control::kFlightGroupsMax));
    CHECK(before({exit_of(1)}, {rank(0, {waiting(3)}), many}) == "none");
    auto full = rank(1, {});
    full.worker.unrecorded_groups = 1;
    CHECK(before({exit_of(1)}, {rank(0, {waiting(3)}), full}) == "none");
    auto large = waiting(3);
    large.size = static_cast<int>(control::kGroupMembersMax) + 1;
    CHECK(before({exit_of(1)}, {rank(0, {large}), rank(1, {})}) == "none");
  }

  TEST_CASE("early exit: an early exit counts as a failure despite exit code 0") {
    auto exit = exit_of(2);
    CHECK_FALSE(exit.failed());
    exit.ended_before = "before it made group \"x\", where rank 0 waits for it";
    CHECK(exit.failed());
    CHECK(describe_failure(exit) ==
          "rank 2 (pid 102) has ended with exit code 0 before it made "
          "group \"x\", where rank 0 waits for it");
  }
}

}  // namespace early_exit_test
