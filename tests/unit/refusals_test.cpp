#include "rendezvous/membership/refusals.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace refusals_test {

using namespace ddprun::membership;
using Lines = std::vector<std::string>;

TEST_SUITE("refusals") {
  TEST_CASE("refusals: a repeated refusal is logged at growing intervals") {
    Refusals refusals;
    CHECK(refusals.add("b", "10.0.0.2", "too late") == "refused b (10.0.0.2): too late");
    for (int count = 2; count <= 5; ++count) {
      const auto line = refusals.add("b", "10.0.0.2", "too late");
      CHECK(line.has_value() == (count != 3 && count != 5));
      if (count == 4) CHECK(*line == "refused b (10.0.0.2): too late (4 times so far)");
    }
    CHECK(refusals.add("b", "10.0.0.2", "other run") == "refused b (10.0.0.2): other run");
    CHECK(refusals.add("c", "10.0.0.2", "too late") == "refused c (10.0.0.2): too late");
    CHECK(refusals.add("", "10.0.0.2", "too late") == "refused 10.0.0.2: too late");
    CHECK(refusals.summary() ==
          Lines{"refused b (10.0.0.2) 5 times: too late", "refused b (10.0.0.2): other run",
                "refused c (10.0.0.2): too late", "refused 10.0.0.2: too late"});
  }

  TEST_CASE("refusals: the summary omits nodes that joined later") {
    Refusals refusals;
    refusals.add("b", "10.0.0.2", "no rank");
    refusals.add("", "10.0.0.3", "no secret");
    refusals.forget("b");
    refusals.forget("");
    CHECK(refusals.summary() == Lines{"refused 10.0.0.3: no secret"});
  }

  TEST_CASE("refusals: the number of refusals kept is limited") {
    Refusals refusals;
    for (std::size_t i = 0; i < kRefusalsKept; ++i) {
      CHECK(refusals.add("n" + std::to_string(i), "a", "r"));
    }
    CHECK(refusals.add("x", "a", "r") ==
          "refused x (a): r (1 times so far, of nodes that are not counted one by one)");
    CHECK(refusals.add("y", "a", "r").has_value());
    CHECK_FALSE(refusals.add("z", "a", "r").has_value());
    CHECK_FALSE(refusals.add("n0", "a", "r") == std::nullopt);  // the second of its own kind
    const auto lines = refusals.summary();
    REQUIRE(lines.size() == kRefusalsRepeated + 1);
    CHECK(lines[0] == "refused n0 (a) 2 times: r");
    const auto rest = kRefusalsKept - kRefusalsRepeated + 3;
    CHECK(lines.back() == "refused others " + std::to_string(rest) + " times");
  }
}

}  // namespace refusals_test
