// What operators are told of nodes that are waited for.
#include "rendezvous/membership/settings.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ddprun::membership;

namespace {

using Names = std::vector<std::string>;

struct Row {
  Names present;
  Names last_round;
  Names expected;
  const char* text;
};

const Row kRows[] = {
    {{"b", "a"}, {}, {}, "2 nodes of at least 3 are here (a, b)"},
    {{"b"}, {}, {"a", "b", "c"}, "1 node of at least 3 is here (b), missing: a, c"},
    {{}, {}, {"a"}, "0 nodes of at least 3 are here, missing: a"},
    {{"b", "b"}, {}, {"b", "b", "b"}, "2 nodes of at least 3 are here (b, b), missing: b"},
    // Somebody goes by another name, so a missing one may be here.
    {{"x"}, {}, {"a", "b"}, "1 node of at least 3 is here (x)"},
    {{"a"},
     {"a", "b"},
     {"a", "b", "c"},
     "1 node of at least 3 is here (a), missing since the last round: b"},
};

}  // namespace

TEST_SUITE("missing nodes") {
  TEST_CASE("they are named where their names are known") {
    for (const auto& row : kRows) {
      const Settings settings{.nodes_min = 3, .expected_nodes = row.expected};
      CHECK(describe_waiting(row.present, row.last_round, settings) == row.text);
    }
  }
}
