// Workers with the same stacks are reported together.
#include "launcher/report/grouped_stacks.hpp"

#include "launcher/agent/hang_stacks.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace grouped_stacks_test {

using namespace ddprun;
using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

namespace {

StacksTaken taken(int rank, Lines lines) {
  return {.rank = rank, .means = {"py-spy"}, .problems = {}, .lines = std::move(lines)};
}

/// Keeps the ranks of each report.
class Reports : public EventSink {
 public:
  void take(const Event& event, std::chrono::system_clock::time_point) override {
    all.push_back(ranks_of(std::get<StacksTaken>(event)));
  }

  std::vector<std::vector<int>> all;
};

using Ranks = std::vector<std::vector<int>>;

}  // namespace

TEST_SUITE("grouped stacks") {
  TEST_CASE("grouped stacks: threads and addresses and states do not matter") {
    struct Row {
      Lines one;
      Lines other;
      bool are_same;
    };
    const Row rows[] = {
        {{"Thread 70 (idle): \"MainThread\"", "    load (train.py:4)"},
         {"Thread 81 (active+gil): \"MainThread\"", "    load (train.py:4)"},
         true},
        {{"Thread 70 (idle): \"MainThread\"", "    load (train.py:4)"},
         {"Thread 81 (idle): \"MainThread\"", "    load (train.py:5)"},
         false},
        {{"Thread 70 (trainer):", "  #0  poll + 0x4f in libc.so.6"},
         {"Thread 81 (trainer):", "  #0  poll + 0x57 in libc.so.6"},
         true},
        {{"Thread 70 (trainer):", "  #0  poll + 0x4f in libc.so.6"},
         {"Thread 81 (trainer):", "  #0  read + 0x4f in libc.so.6"},
         false},
        {{"Thread 2 (Thread 0x7fa0 (LWP 71) \"gloo\"):", "#0  0x00007f in wait (cond=0x55e0)"},
         {"Thread 2 (Thread 0x7fb0 (LWP 82) \"gloo\"):", "#0  0x00007e in wait (cond=0x55f0)"},
         true},
        {{"Thread 70 (a): state S, waiting in futex_wait"}, {"Thread 81 (a): state R"}, false},
        {{"a"}, {"a", "b"}, false},
    };
    for (const auto& row : rows) {
      CAPTURE(row.one.front());
      const auto groups = grouped_stacks({taken(0, row.one), taken(1, row.other)});
      CHECK((groups.size() == 1) == row.are_same);
      CHECK(groups[0].lines == row.one);
    }
  }

  TEST_CASE("grouped stacks: groups are merged, and the smallest ones are first") {
    auto many = taken(2, {"a"});
    many.same = {4, 5};
    auto ended = taken(6, {"a"});
    ended.was_ended = true;
    const auto groups =
        grouped_stacks({ended, many, taken(3, {"b"}), taken(0, {"a"}), taken(1, {"b"})});
    REQUIRE(groups.size() == 3);
    CHECK(ranks_of(groups[0]) == std::vector{6});
    CHECK(ranks_of(groups[1]) == std::vector{1, 3});
    CHECK(ranks_of(groups[2]) == std::vector{0, 2, 4, 5});
  }

  TEST_CASE("hang stacks: stacks are reported when all nodes have sent theirs") {
    boost::asio::io_context io;
    Reports reports;
    HangStacks stacks(io.get_executor(), reports);
    stacks.begin_round(3);
    stacks.add("", {taken(0, {"a"}), taken(1, {"b"})});
    stacks.add("b", {taken(2, {"b"})});
    stacks.add("b", {taken(2, {"a"}), taken(3, {"b"})});  // replaces the first ones
    CHECK(reports.all.empty());
    stacks.add("b", {});  // keeps them
    stacks.add("c", {});
    CHECK(reports.all == Ranks{{0, 2}, {1, 3}});
    stacks.add("", {taken(0, {"a"})});
    stacks.begin_round(1);
    CHECK(reports.all.size() == 3);
    stacks.add("", {taken(0, {"a"})});
    CHECK(reports.all.size() == 4);
  }

  TEST_CASE("hang stacks: a node without stacks does not delay the others beyond the limit") {
    boost::asio::io_context io;
    Reports reports;
    HangStacks stacks(io.get_executor(), reports, 10ms);
    stacks.begin_round(2);
    stacks.add("", {taken(0, {"a"})});
    io.run();
    CHECK(reports.all == Ranks{{0}});
    stacks.report_all();
    CHECK(reports.all.size() == 1);
  }
}

}  // namespace grouped_stacks_test
