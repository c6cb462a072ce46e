#include "rendezvous/membership/node_choice.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace node_choice_test {

using namespace ddprun::membership;

namespace {

constexpr Time kNow{std::chrono::hours(1)};

struct Row {
  const char* what;
  std::set<NodeId> held_back;
  std::set<NodeId> leaving;
  std::vector<std::pair<NodeId, NodeId>> cuts;  ///< from, to
  std::vector<NodeId> chosen;
  std::set<NodeId> cut_off;
  std::string text;
};

/// Nodes 1 to 4 are n1 to n4; node 1 is the host.
const std::vector<Row> kRows = {
    {"no cut", {}, {}, {}, {1, 2, 3, 4}, {}, ""},
    {"a cut in both directions",
     {},
     {},
     {{2, 4}, {4, 2}},
     {1, 2, 3},
     {4},
     "nodes n2 and n4 cannot reach each other; both reach the host"},
    {"a cut in one direction",
     {},
     {},
     {{4, 2}},
     {1, 2, 3},
     {4},
     "node n4 cannot reach n2; both reach the host"},
    {"a node with two cuts",
     {},
     {},
     {{2, 3}, {2, 4}},
     {1, 3, 4},
     {2},
     "node n2 cannot reach n3, node n2 cannot reach n4; all reach the host"},
    {"a cut of a node that is held back", {4}, {}, {{2, 4}}, {1, 2, 3}, {}, ""},
    {"a cut of a node that leaves", {}, {2}, {{2, 4}}, {1, 3, 4}, {}, ""},
    {"only the host is reached by all",
     {},
     {},
     {{2, 3}, {2, 4}, {3, 4}},
     {1, 2},
     {3, 4},
     "node n2 cannot reach n3, node n2 cannot reach n4, node n3 cannot reach n4; all reach the "
     "host"},
};

Roster roster_of(const Row& row) {
  Roster roster;
  for (const NodeId id : {1, 2, 3, 4}) {
    Roster::Member member{.join = {.name = "n" + std::to_string(id), .is_host = id == 1}};
    member.is_leaving = row.leaving.contains(id);
    if (row.held_back.contains(id)) member.held_back_until = kNow;
    roster.add(id, member);
  }
  return roster;
}

/// Like the result of a probe of all nodes.
Reachability reach_of(const Row& row) {
  Reachability reach;
  std::vector<Reachability::Node> nodes;
  for (const NodeId id : {1, 2, 3, 4}) {
    const ProbeAddress address{"10.0.0.1", static_cast<std::uint16_t>(id)};
    nodes.push_back({.id = id, .address = id == 1 ? ProbeAddress{} : address});
  }
  const auto number = reach.begin(nodes, kNow, kNow + std::chrono::seconds(1));
  for (const auto& node : nodes) {
    Probed probed{.number = number};
    for (const auto& [from, to] : row.cuts) {
      if (from == node.id) probed.unreachable.push_back(static_cast<std::uint32_t>(to - 1));
    }
    reach.note(node.id, probed);
  }
  CHECK(reach.conclude(kNow));
  return reach;
}

}  // namespace

TEST_SUITE("node choice") {
  TEST_CASE("node choice: the chosen nodes can all connect to each other") {
    for (const auto& row : kRows) {
      CAPTURE(row.what);
      const auto roster = roster_of(row);
      const auto reach = reach_of(row);
      const auto choice = choose_nodes(roster, reach);
      CHECK(choice.chosen == row.chosen);
      CHECK(choice.cut_off == row.cut_off);
      if (!row.text.empty()) CHECK(describe_cuts(choice, roster, reach) == row.text);
    }
  }
}

}  // namespace node_choice_test
