// Positions and transfers of ranks: both sides of every transfer agree, and all parts of a message
// reach their targets, for every distribution of up to six ranks over up to three nodes.
#include "worker_runtime/collectives/node_schedule.hpp"

#include "worker_runtime/collectives/node_layout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

namespace node_schedule_test {

using namespace ddprun::collectives;

namespace {

std::vector<std::vector<int>> all_spreads() {
  std::vector<std::vector<int>> spreads;
  for (int first = 1; first <= 5; ++first) {
    for (int second = 1; first + second <= 6; ++second) {
      spreads.push_back({first, second});
      for (int third = 1; first + second + third <= 6; ++third)
        spreads.push_back({first, second, third});
    }
  }
  return spreads;
}

constexpr std::size_t kSizes[] = {0, 1, 7, 16, 1000, 4099};

using Step = std::function<Transfers(const LanePlan&, int)>;

std::vector<Transfers> step_of_all(const LanePlan& plan, const NodeLayout& layout,
                                   const Step& step) {
  std::vector<Transfers> all;
  for (int rank = 0; rank < layout.ranks(); ++rank) all.push_back(step(plan, rank));
  return all;
}

/// Every send matches a receive of the same range, and each rank sends at most once to another one.
void check_matches(const std::vector<Transfers>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::set<int> peers;
    for (const auto& [peer, range] : all[rank].sends) {
      CHECK(peers.insert(peer).second);
      CHECK(range.count > 0);
      const auto& receives = all[static_cast<std::size_t>(peer)].receives;
      const Transfer expected{static_cast<int>(rank), range};
      CHECK(std::count(receives.begin(), receives.end(), expected) == 1);
    }
    for (const auto& [peer, range] : all[rank].receives) {
      const auto& sends = all[static_cast<std::size_t>(peer)].sends;
      const Transfer expected{static_cast<int>(rank), range};
      CHECK(std::count(sends.begin(), sends.end(), expected) == 1);
    }
  }
}

/// Marks elements of a rank's copy.
struct Copy {
  explicit Copy(std::size_t elements) : has(elements) {}
  void take(Range range) {
    for (std::size_t i = range.first; i < range.first + range.count; ++i) has[i] = true;
  }
  bool has_all(Range range) const {
    for (std::size_t i = range.first; i < range.first + range.count; ++i) {
      if (!has[i]) return false;
    }
    return true;
  }
  std::vector<bool> has;
};

/// Simulates a step; returns the elements of each rank afterwards. A rank must have what it sends.
void carry_out(const std::vector<Transfers>& all, std::vector<Copy>& copies) {
  const auto before = copies;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const auto& [peer, range] : all[rank].sends) {
      CHECK(before[rank].has_all(range));
      copies[static_cast<std::size_t>(peer)].take(range);
    }
  }
}

void for_each_plan(const std::function<void(const NodeLayout&, const LanePlan&, std::size_t)>& f) {
  for (const auto& spread : all_spreads()) {
    const NodeLayout layout(spread);
    CAPTURE(layout.nodes());
    CAPTURE(layout.ranks());
    for (const std::size_t elements : kSizes) f(layout, LanePlan(layout, elements, 4), elements);
  }
}

}  // namespace

TEST_SUITE("node schedule") {
  TEST_CASE("node schedule: a layout yields the position of every rank") {
    const NodeLayout layout({2, 1, 3});
    CHECK(layout.nodes() == 3);
    CHECK(layout.ranks() == 6);
    CHECK(layout.lanes() == 1);
    CHECK_FALSE(layout.is_flat());
    CHECK(NodeLayout({1, 1}).is_flat());
    CHECK(NodeLayout({3, 2}).lanes() == 2);
    const int nodes[] = {0, 0, 1, 2, 2, 2};
    const int local[] = {0, 1, 0, 0, 1, 2};
    for (int rank = 0; rank < 6; ++rank) {
      CHECK(layout.node_of(rank) == nodes[rank]);
      CHECK(layout.local_rank(rank) == local[rank]);
    }
  }

  TEST_CASE("node schedule: each rank has one mutual neighbour on every other node") {
    for (const auto& spread : all_spreads()) {
      const NodeLayout layout(spread);
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        std::set<int> nodes;
        for (const int other : layout.neighbours(rank)) {
          const auto back = layout.neighbours(other);
          CHECK(std::count(back.begin(), back.end(), rank) == 1);
          nodes.insert(layout.node_of(other));
        }
        CHECK(static_cast<int>(nodes.size()) == layout.nodes() - 1);
        CHECK_FALSE(nodes.contains(layout.node_of(rank)));
      }
    }
  }

  TEST_CASE("node schedule: lanes and their parts are disjoint and cover the message") {
    for_each_plan([](const NodeLayout& layout, const LanePlan& plan, std::size_t elements) {
      std::size_t next = 0;
      for (int lane = 0; lane < layout.lanes(); ++lane) {
        for (int node = 0; node < layout.nodes(); ++node) {
          const Range part = plan.part(lane, node);
          if (part.count > 0) CHECK(part.first == next);
          next += part.count;
        }
      }
      CHECK(next == elements);
    });
  }

  TEST_CASE("node schedule: the owner of an element gets the contributions of all nodes") {
    for_each_plan([](const NodeLayout& layout, const LanePlan& plan, std::size_t) {
      const auto all =
          step_of_all(plan, layout, [](const LanePlan& p, int rank) { return p.to_owners(rank); });
      check_matches(all);
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        const auto& receives = all[static_cast<std::size_t>(rank)].receives;
        const int lane = plan.lane_of(rank);
        const bool owns = lane >= 0 && plan.part(lane, layout.node_of(rank)).count > 0;
        CHECK(static_cast<int>(receives.size()) == (owns ? layout.nodes() - 1 : 0));
        for (const auto& received : receives)
          CHECK(received.range == plan.part(lane, layout.node_of(rank)));
      }
    });
  }

  TEST_CASE("node schedule: a mover receives its whole lane or the part of one node") {
    for_each_plan([](const NodeLayout& layout, const LanePlan& plan, std::size_t elements) {
      for (int target = -1; target < layout.nodes(); ++target) {
        std::vector<Copy> copies(static_cast<std::size_t>(layout.ranks()), Copy(elements));
        for (int rank = 0; rank < layout.ranks(); ++rank) {
          if (const int lane = plan.lane_of(rank); lane >= 0)
            copies[static_cast<std::size_t>(rank)].take(plan.part(lane, layout.node_of(rank)));
        }
        const auto all = step_of_all(plan, layout, [&](const LanePlan& p, int rank) {
          return target < 0 ? p.from_owners(rank) : p.owners_to(rank, target);
        });
        check_matches(all);
        carry_out(all, copies);
        for (int rank = 0; rank < layout.ranks(); ++rank) {
          const int lane = plan.lane_of(rank);
          if (lane < 0 || (target >= 0 && layout.node_of(rank) != target)) continue;
          CHECK(copies[static_cast<std::size_t>(rank)].has_all(plan.lane(lane)));
        }
      }
    });
  }

  TEST_CASE("node schedule: a broadcast from one node reaches all movers in two steps") {
    for_each_plan([](const NodeLayout& layout, const LanePlan& plan, std::size_t elements) {
      for (int root = 0; root < layout.nodes(); ++root) {
        std::vector<Copy> copies(static_cast<std::size_t>(layout.ranks()), Copy(elements));
        for (int rank = layout.first_rank(root); rank < layout.first_rank(root + 1); ++rank)
          copies[static_cast<std::size_t>(rank)].take({0, elements});
        for (const Step& step :
             {Step([&](const LanePlan&p, int rank) { return p.to_owners_from(rank, root); }),
              Step([&](const LanePlan&p, int rank) { return p.from_owners(rank, root); })}) {
          const auto all = step_of_all(plan, layout, step);
          check_matches(all);
          carry_out(all, copies);
        }
        for (int rank = 0; rank < layout.ranks(); ++rank) {
          const int lane = plan.lane_of(rank);
          if (lane >= 0) CHECK(copies[static_cast<std::size_t>(rank)].has_all(plan.lane(lane)));
        }
      }
    });
  }
}

}  // namespace node_schedule_test
