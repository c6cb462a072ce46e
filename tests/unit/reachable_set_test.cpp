#include "rendezvous/membership/reachable_set.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace reachable_set_test {

using namespace ddprun::membership;

namespace {

using Nodes = std::vector<std::size_t>;

struct Row {
  const char* what;
  std::size_t count;
  std::vector<CutPair> cuts;
  std::optional<std::size_t> required;
  Nodes expected;
};

const std::vector<Row> kRows = {
    {"no nodes", 0, {}, std::nullopt, {}},
    {"no cuts", 3, {}, std::nullopt, {0, 1, 2}},
    {"one cut: the later node is left out", 3, {{1, 2}}, 0, {0, 1}},
    {"one cut, as seen from both ends", 3, {{2, 1}, {1, 2}}, 0, {0, 1}},
    {"a node that nothing reaches", 4, {{1, 0}, {1, 2}, {1, 3}}, std::nullopt, {0, 2, 3}},
    {"the required node stays although others would be more", 4, {{0, 1}, {0, 2}}, 0, {0, 3}},
    {"two halves of equal size: the earlier one",
     4,
     {{0, 2}, {0, 3}, {1, 2}, {1, 3}},
     std::nullopt,
     {0, 1}},
    {"two halves with the required node in the later one",
     4,
     {{0, 2}, {0, 3}, {1, 2}, {1, 3}},
     3,
     {2, 3}},
    {"the larger of two parts", 5, {{1, 2}, {1, 3}, {1, 4}}, 0, {0, 2, 3, 4}},
    {"a chain of cuts", 5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}, std::nullopt, {0, 2, 4}},
    {"all cut from each other", 3, {{0, 1}, {0, 2}, {1, 2}}, std::nullopt, {0}},
    {"a cut of a node from itself is none", 2, {{1, 1}}, std::nullopt, {0, 1}},
};

bool has_cut(const std::vector<CutPair>& cuts, std::size_t a, std::size_t b) {
  return std::any_of(cuts.begin(), cuts.end(), [&](const CutPair& cut) {
    return cut == CutPair(a, b) || cut == CutPair(b, a);
  });
}

bool is_without_cuts(const std::vector<CutPair>& cuts, const Nodes& nodes) {
  for (const auto a : nodes) {
    for (const auto b : nodes) {
      if (a != b && has_cut(cuts, a, b)) return false;
    }
  }
  return true;
}

/// Exhaustive search.
Nodes by_brute_force(std::size_t count, const std::vector<CutPair>& cuts,
                     std::optional<std::size_t> required) {
  Nodes best;
  for (std::uint32_t set = 0; set < std::uint32_t{1} << count; ++set) {
    if (required && (set >> *required & 1) == 0) continue;
    Nodes nodes;
    for (std::size_t i = 0; i < count; ++i) {
      if ((set >> i & 1) != 0) nodes.push_back(i);
    }
    if (nodes.size() < best.size() || !is_without_cuts(cuts, nodes)) continue;
    if (nodes.size() > best.size() || nodes < best) best = nodes;
  }
  return best;
}

std::vector<CutPair> random_cuts(std::mt19937& random, std::size_t count, std::size_t percent) {
  std::vector<CutPair> cuts;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      if (a != b && random() % 100 < percent) cuts.emplace_back(a, b);
    }
  }
  return cuts;
}

}  // namespace

TEST_SUITE("reachable set") {
  TEST_CASE("reachable set: the largest set of mutually reachable nodes is found") {
    for (const auto& row : kRows) {
      CAPTURE(row.what);
      CHECK(largest_reachable_set(row.count, row.cuts, row.required) == row.expected);
    }
  }

  TEST_CASE("reachable set: the result matches an exhaustive search") {
    std::mt19937 random(20261125);
    for (int i = 0; i < 300; ++i) {
      const std::size_t count = 1 + random() % 9;
      const auto cuts = random_cuts(random, count, random() % 60);
      const auto required =
          random() % 2 == 0 ? std::optional<std::size_t>(random() % count) : std::nullopt;
      CHECK(largest_reachable_set(count, cuts, required) == by_brute_force(count, cuts, required));
    }
  }

  TEST_CASE("reachable set: a result beyond the limit of the exact search contains no cut") {
    std::mt19937 random(20261126);
    for (int i = 0; i < 20; ++i) {
      const std::size_t count = kExactNodesMax + 1 + random() % 60;
      const auto cuts = random_cuts(random, count, 1 + random() % 40);
      const auto required = random() % count;
      const auto nodes = largest_reachable_set(count, cuts, required);
      CHECK(std::count(nodes.begin(), nodes.end(), required) == 1);
      CHECK(is_without_cuts(cuts, nodes));
    }
  }

  TEST_CASE("reachable set: the result for a split network is the larger part") {
    constexpr std::size_t kCount = 40;
    constexpr std::size_t kLarger = 25;
    std::vector<CutPair> cuts;
    for (std::size_t a = 0; a < kLarger; ++a) {
      for (std::size_t b = kLarger; b < kCount; ++b) cuts.emplace_back(a, b);
    }
    CHECK(largest_reachable_set(kCount, cuts).size() == kLarger);
  }
}

}  // namespace reachable_set_test
