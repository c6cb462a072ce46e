// Content and time of messages about missing nodes.
#include "rendezvous/membership/notices.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace missing_nodes_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;
using namespace std::chrono_literals;

namespace {

using Names = std::vector<std::string>;

struct Row {
  Names present;
  Names last_round;
  Names expected;
  const char* text;
};

const Row kRows[] = {
    {{"b", "a"}, {}, {}, "2 of at least 3 nodes have joined (a, b)"},
    {{"b"}, {}, {"a", "b", "c"}, "1 of at least 3 nodes has joined (b); missing: a, c"},
    {{}, {}, {"a"}, "0 of at least 3 nodes have joined; missing: a"},
    {{"b", "b"}, {}, {"b", "b", "b"}, "2 of at least 3 nodes have joined (b, b); missing: b"},
    // A node has an unlisted name, so it may be one of those that seem to be missing.
    {{"x"}, {}, {"a", "b"}, "1 of at least 3 nodes has joined (x)"},
    {{"a"},
     {"a", "b"},
     {"a", "b", "c"},
     "1 of at least 3 nodes has joined (a); b was in the last round and has not come back"},
    {{"a"},
     {"a", "b", "c"},
     {},
     "1 of at least 3 nodes has joined (a); b, c were in the last round and have not come back"},
};

Settings settings(int least, int most) {
  Settings result{.run_id = "run", .nodes_min = least, .nodes_max = most};
  result.join_timeout = 60s;
  result.last_call_timeout = 10s;
  result.lease = 20s;
  return result;
}

/// The only line that the last event sent to the node.
std::string waiting_text(const CoordinationDriver& driver, NodeId node) {
  const auto notices = driver.sent_to<Waiting>(node);
  return notices.size() == 1 ? notices[0].text : std::to_string(notices.size()) + " notices";
}

}  // namespace

TEST_SUITE("missing nodes") {
  TEST_CASE("missing nodes: missing nodes are named if their names are known") {
    for (const auto& row : kRows) {
      const Settings settings{.nodes_min = 3, .expected_nodes = row.expected};
      CHECK(describe_waiting(row.present, row.last_round, settings) == row.text);
    }
  }

  TEST_CASE("missing nodes: the timeout error names present and missing nodes") {
    Settings settings{.nodes_min = 3, .expected_nodes = {"a", "b", "c"}};
    settings.join_timeout = 2s;
    CHECK(describe_shortage({"b"}, {}, settings) ==
          "only 1 of at least 3 nodes joined within 2 s (join_timeout): b; missing: a, c");
    CHECK(
        describe_shortage({}, {"b"}, settings) ==
        "only 0 of at least 3 nodes joined within 2 s (join_timeout); b was in the last round and "
        "has not come back");
  }

  TEST_CASE("missing nodes: a waiting node gets the first notice within half a second") {
    CoordinationDriver driver(settings(3, 3));
    driver.join(1, "a", 100);
    CHECK(driver.sent_to<Waiting>(1).empty());
    CHECK(driver.coordination().next_wake() == CoordinationDriver::at(500));
    driver.pass(500);
    CHECK(waiting_text(driver, 1) ==
          "1 of at least 3 nodes has joined (a); waiting for 60 s at most");
    driver.join(2, "b", 10'100);
    CHECK(driver.sent_to<Waiting>(2).empty());
    driver.pass(10'500);
    CHECK(waiting_text(driver, 2) ==
          "2 of at least 3 nodes have joined (a, b); waiting for 50 s at most");
    CHECK(driver.sent_to<Waiting>(1).empty());
  }

  TEST_CASE("missing nodes: no notice is sent if the round starts soon") {
    CoordinationDriver driver(settings(2, 2));
    driver.join(1, "a", 0);
    driver.join(2, "b", 500);
    CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
    CHECK(driver.sent_to<Waiting>(1).empty());
    driver.pass(1000);
    CHECK(driver.sent_to<Waiting>(2).empty());
  }

  TEST_CASE("missing nodes: nodes that join at the same time get the same notice") {
    CoordinationDriver driver(settings(3, 3));
    driver.join(1, "a", 0);
    driver.join(2, "b", 249);
    driver.pass(500);
    CHECK(waiting_text(driver, 1) == waiting_text(driver, 2));
    CHECK(waiting_text(driver, 1).starts_with("2 of at least"));
  }

  TEST_CASE("missing nodes: the notice is repeated at a fixed interval") {
    auto with = settings(2, 2);
    with.waiting_notice = 7s;
    CoordinationDriver driver(with);
    driver.join(1, "a", 0);
    driver.pass(500);
    CHECK(driver.coordination().next_wake() == CoordinationDriver::at(7500));
    driver.pass(7499);
    CHECK(driver.sent_to<Waiting>(1).empty());
    driver.pass(7500);
    CHECK(waiting_text(driver, 1) ==
          "1 of at least 2 nodes has joined (a); waiting for 53 s at most");
  }

  TEST_CASE("missing nodes: a sufficient number of nodes is notified of the remaining wait") {
    CoordinationDriver driver(settings(1, 2));
    driver.join(1, "a", 0);
    driver.pass(500);
    CHECK(waiting_text(driver, 1) ==
          "1 of at least 1 node has joined (a); waiting for more, for 10 s at most");
  }

  TEST_CASE("missing nodes: after a loss the remaining nodes are notified of missing ones") {
    CoordinationDriver driver(settings(2, 2));
    driver.join(1, "a", 0);
    driver.join(2, "b", 0);
    driver.gone(2, 1000);
    driver.send(1, WorkersEnded{.round = 0}, 1100);
    CHECK(driver.sent_to<NextRound>(1)[0].reason.starts_with("b is lost"));
    driver.pass(1500);
    CHECK(waiting_text(driver, 1) ==
          "1 of at least 2 nodes has joined (a); b was in the last round and has not come back; "
          "waiting "
          "for 60 s at most");
  }
}

}  // namespace missing_nodes_test
