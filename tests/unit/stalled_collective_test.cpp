// Text about the ranks of a group when a run has failed or hangs.
#include "launcher/report/stalled_collective.hpp"

#include "launcher/report/final_report.hpp"
#include "rendezvous/membership/bounds.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace stalled_collective_test {

using namespace ddprun;
using namespace std::chrono_literals;
using control::Flight;
using control::FlightState;
using control::GroupFlightRecord;
using control::GroupState;

namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

Flight in(std::uint64_t number, const std::string& call, std::chrono::nanoseconds since,
          std::uint64_t bytes = 0) {
  return {.number = number, .call = call, .bytes = bytes, .entered_ago = since};
}

Flight done(std::uint64_t number, const std::string& call, std::chrono::nanoseconds ended_ago) {
  return {.number = number,
          .call = call,
          .state = FlightState::done,
          .entered_ago = ended_ago + 1s,
          .ended_ago = ended_ago};
}

Flight receiving(const std::string& call, std::chrono::nanoseconds since) {
  return {.is_message = true, .call = call, .entered_ago = since};
}

/// A rank of a group with these last calls.
RankFlights rank(int number, std::vector<Flight> flights, GroupState state = GroupState::open,
                 const std::string& group = "default") {
  GroupFlightRecord one{.name = group, .rank = number, .size = 4, .state = state};
  for (const auto& flight : flights) {
    if (!flight.is_message) one.entered = flight.number + 1;
  }
  one.flights = std::move(flights);
  return {number, {.groups = {one}}};
}

std::vector<std::string> descriptions(const std::vector<RankFlights>& ranks) {
  std::vector<std::string> lines;
  for (const auto& stalled : find_stalled_collectives(ranks)) {
    for (const auto& line : describe(stalled)) lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_SUITE("stalled collective") {
  TEST_CASE("stalled collective: a missing rank is reported with its last call") {
    const auto call = [](auto since) {
      return in(17, "all_reduce(6553600 x float32, sum)", since, 25 * kMebibyte);
    };
    CHECK(descriptions({rank(0, {call(30s)}), rank(1, {call(29s)}),
                        rank(2, {done(15, "barrier()", 32s), done(16, "barrier()", 31s)}),
                        rank(3, {call(30s)})}) ==
          Lines{"rank 2 has not entered collective 17 of group \"default\", "
                "all_reduce(6553600 x float32, sum) of 25.0 MiB; ranks 0, 1, 3 wait in it, for up "
                "to 30.0 s",
                "rank 2: its last was barrier(), 31.0 s earlier"});
  }

  TEST_CASE("stalled collective: different calls are listed side by side") {
    CHECK(descriptions(
              {rank(0, {in(3, "all_reduce(6553600 x float32, sum)", 2s, 25 * kMebibyte)}),
               rank(1, {in(3, "broadcast(10 x int32, root 0)", 1s, 40)}),
               rank(2, {in(3, "all_reduce(6553600 x float32, sum)", 2s, 25 * kMebibyte)})}) ==
          Lines{"in collective 3 of group \"default\" ranks 0, 2 call "
                "all_reduce(6553600 x float32, sum) of 25.0 MiB but rank 1 calls broadcast(10 x "
                "int32, root 0) of 40 bytes"});
  }

  TEST_CASE("stalled collective: the earliest unfinished collective is reported") {
    CHECK(descriptions(
              {rank(0, {done(7, "broadcast(1 x int32, root 0)", 5s), in(8, "barrier()", 5s)}),
               rank(1, {in(7, "broadcast(1 x int32, root 0)", 9s)}),
               rank(2, {done(6, "barrier()", 10s)})}) ==
          Lines{"rank 2 has not entered collective 7 of group \"default\", broadcast(1 x int32, "
                "root 0); rank 1 waits in it, for up to 9.0 s; rank 0 has completed it",
                "rank 2: its last was barrier(), 10.0 s earlier"});
  }

  TEST_CASE("stalled collective: a failed call counts like a waiting one") {
    auto failed = in(2, "barrier()", 5s);
    failed.state = FlightState::failed;
    failed.ended_ago = 3s;
    CHECK(descriptions({rank(0, {failed}), rank(1, {})}) ==
          Lines{"rank 1 has not entered collective 2 of group \"default\", barrier(); rank 0 waits "
                "in it, for up to 2.0 s",
                "rank 1: has not called anything"});
  }

  TEST_CASE("stalled collective: all ranks in the same call are reported as a possible hang") {
    CHECK(descriptions({rank(0, {in(2, "barrier()", 5s)}), rank(1, {in(2, "barrier()", 4s)})}) ==
          Lines{"ranks 0, 1 are in collective 2 of group \"default\", barrier(), for up to 5.0 s"});
  }

  TEST_CASE("stalled collective: the duration of a short wait is omitted") {
    CHECK(descriptions({rank(0, {in(2, "barrier()", 20ms)}), rank(1, {in(2, "barrier()", 0ms)})}) ==
          Lines{"ranks 0, 1 are in collective 2 of group \"default\", barrier()"});
    CHECK(descriptions({rank(0, {receiving("recv(1 x int32, rank 1, tag 7)", 60ms)}),
                        rank(1, {done(0, "barrier()", 4s)})})
              .front() == "rank 0 waits for messages in group \"default\", for up to 0.1 s");
  }

  TEST_CASE("stalled collective: ranks that wait for messages are reported") {
    const auto waiting = receiving("recv(1 x int32, rank 1, tag 7)", 4s);
    CHECK(descriptions({rank(0, {waiting}), rank(1, {done(0, "barrier()", 4s)})}) ==
          Lines{"rank 0 waits for messages in group \"default\", for up to 4.0 s",
                "rank 0: is in recv(1 x int32, rank 1, tag 7), for 4.0 s"});
    CHECK(descriptions({rank(0, {waiting}), rank(1, {in(0, "barrier()", 4s)})}) ==
          Lines{"rank 0 has not entered collective 0 of group \"default\", barrier(); rank 1 waits "
                "in it, for up to 4.0 s",
                "rank 0: is in recv(1 x int32, rank 1, tag 7), for 4.0 s"});
  }

  TEST_CASE("stalled collective: ranks missing from the creation of a group are reported") {
    CHECK(descriptions({rank(0, {}, GroupState::meeting), {1, {}}}) ==
          Lines{"rank 1 has not made group \"default\"; rank 0 waits for the others to join group "
                "\"default\""});
  }

  TEST_CASE("stalled collective: ranks outside the group's members are not blamed") {
    auto first = rank(0, {in(0, "barrier()", 1s)}, GroupState::open, "pair");
    first.worker.groups[0].members = {0, 2};
    CHECK(descriptions({first, {1, {}}, {2, {}}}) ==
          Lines{"rank 2 has not entered collective 0 of group \"pair\", barrier(); rank 0 waits in "
                "it, for up to 1.0 s",
                "rank 2: has not made the group"});
  }

  TEST_CASE("stalled collective: a rank without space for the record is not blamed") {
    RankFlights full{.rank = 1};
    full.worker.unrecorded_groups = 1;
    CHECK(descriptions({rank(0, {in(4, "barrier()", 3s)}), full, {2, {}}}) ==
          Lines{"rank 2 has not entered collective 4 of group \"default\", barrier(); rank 0 waits "
                "in it, for up to 3.0 s",
                "rank 2: has not made the group",
                "rank 1 has more groups than are recorded: what became of this one there is "
                "unknown"});
    CHECK(descriptions({rank(0, {}, GroupState::meeting), full}) ==
          Lines{"rank 0 waits for the others to join group \"default\"",
                "rank 1 has more groups than are recorded: what became of this one there is "
                "unknown"});
  }

  TEST_CASE("stalled collective: ranks outside a subgroup are not blamed") {
    std::vector<RankFlights> ranks;
    for (int i = 0; i < 400; ++i) {
      ranks.push_back(i < 300 ? rank(i, {in(4, "barrier()", 3s)}) : RankFlights{.rank = i});
      if (i < 300) ranks.back().worker.groups[0].size = 300;
    }
    CHECK(
        descriptions(ranks) ==
        Lines{"ranks 0-299 are in collective 4 of group \"default\", barrier(), for up to 3.0 s"});
    // All of them are in it.
    for (auto& one : ranks) {
      if (!one.worker.groups.empty()) one.worker.groups[0].size = 400;
    }
    CHECK(descriptions(ranks)[0].find("ranks 300-399 have not entered") == 0);
  }

  TEST_CASE("stalled collective: a group without waiting ranks is not reported") {
    CHECK(descriptions({rank(0, {done(4, "barrier()", 1s)}), rank(1, {done(3, "barrier()", 1s)})})
              .empty());
    CHECK(descriptions({{0, {}}, {1, {}}}).empty());
  }

  TEST_CASE("stalled collective: only the first of many missing ranks are described") {
    std::vector<RankFlights> ranks = {rank(0, {in(0, "barrier()", 1s)})};
    for (int i = 1; i <= 20; ++i) ranks.push_back(rank(i, {}));
    const auto lines = descriptions(ranks);
    REQUIRE(lines.size() == 10);
    CHECK(lines[0].find("ranks 1-20 have not entered") == 0);
    CHECK(lines.back() == "and 12 more");
  }

  TEST_CASE("stalled collective: the description is the same on other nodes") {
    std::vector<RankFlights> ranks = {rank(0, {in(9, "barrier()", 5s)}),
                                      rank(1, {receiving("recv(1 x int32, rank 0, tag 7)", 4s)}),
                                      {2, {.unrecorded_groups = 3}}};
    auto& group = ranks[0].worker.groups[0];
    group.members = {0, 1, 2};
    for (std::uint64_t i = 0; i < 9; ++i)
      group.flights.insert(group.flights.begin(), done(8 - i, "barrier()", 5s));
    const auto sent = std::get<membership::WorkersEnded>(
        membership::within_bounds(membership::WorkersEnded{.flights = ranks}));
    REQUIRE(sent.flights[0].worker.groups[0].flights.size() < group.flights.size());
    CHECK(find_stalled_collectives(sent.flights) == find_stalled_collectives(ranks));
  }

  TEST_CASE("stalled collective: the final report contains it after the failures") {
    RunFinished finished{.result = RunResult::failed, .attempts = 1};
    finished.failures.push_back({.rank = 1, .signal = 9});
    finished.stalled = find_stalled_collectives({rank(0, {in(0, "barrier()", 1s)}), rank(1, {})});
    const auto report = final_report(finished, {.program = "train"}, 100);
    const auto at = report.find(
        "Where the ranks were in their collectives:\n"
        "  rank 1 has not entered collective 0 of group \"default\"");
    CHECK_MESSAGE(at != std::string::npos, report);
    CHECK(report.find("\n    rank 1: has not called anything\n") != std::string::npos);
  }
}

}  // namespace stalled_collective_test
