// Process groups over several nodes: the environment assigns workers to nodes, and workers of a
// node share memory, so that only the network differs from several machines.
#include "tests/support/group_processes.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_processes.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace nodes_group_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Nodes = std::vector<int>;

int ranks_of(const Nodes& on_nodes) {
  return std::accumulate(on_nodes.begin(), on_nodes.end(), 0);
}

/// Two to six ranks.
std::vector<Nodes> spreads_over_two() {
  std::vector<Nodes> spreads;
  for (int first = 1; first <= 5; ++first) {
    for (int second = 1; first + second <= 6; ++second) spreads.push_back({first, second});
  }
  return spreads;
}

/// Three to six ranks.
std::vector<Nodes> spreads_over_three() {
  std::vector<Nodes> spreads;
  for (const Nodes& two : spreads_over_two()) {
    for (int third = 1; two[0] + two[1] + third <= 6; ++third)
      spreads.push_back({two[0], two[1], third});
  }
  return spreads;
}

std::string text_of(const Nodes& on_nodes) {
  std::string text;
  for (const int ranks : on_nodes) text += (text.empty() ? "" : "+") + std::to_string(ranks);
  return text;
}

void check_random_calls(const std::vector<Nodes>& spreads) {
  const StoreProcess store;
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  for (const Nodes& nodes : spreads) {
    GroupOptions options = small_group();
    options.name = text_of(nodes);
    CAPTURE(options.name);
    RankProcesses ranks(ranks_of(nodes), [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), options);
      return RandomCalls(group, seed, nodes).run(20);
    });
    for (int rank = 0; rank < ranks_of(nodes); ++rank) CHECK(ranks.wait(rank).output == "ok");
  }
}

}  // namespace

TEST_SUITE("nodes group") {
  TEST_CASE("nodes group: all collectives match serial results on two nodes") {
    check_random_calls(spreads_over_two());
  }

  TEST_CASE("nodes group: all collectives match serial results on three nodes") {
    check_random_calls(spreads_over_three());
  }

  TEST_CASE("nodes group: an element's sum is bitwise independent of the message size") {
    const StoreProcess store;
    const Nodes nodes{2, 1, 2};
    RankProcesses ranks(5, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), small_group());
      std::mt19937 random(static_cast<unsigned>(rank));
      std::vector<float> values(100'000);
      for (auto& value : values) value = static_cast<float>(random()) / 777.0F;
      std::vector<float> few(values.begin() + 5000, values.begin() + 5100);
      group.all_reduce(as_buffer(values.data(), values.size())).wait();
      group.all_reduce(as_buffer(few.data(), few.size())).wait();
      return std::string(std::equal(few.begin(), few.end(), values.begin() + 5000) ? "equal"
                                                                                   : "different");
    });
    for (int rank = 0; rank < 5; ++rank) CHECK(ranks.wait(rank).output == "equal");
  }

  TEST_CASE("nodes group: collectives leave most of the arena to the program") {
    const StoreProcess store;
    const Nodes nodes{2, 2};
    RankProcesses ranks(4, [&](int rank) {
      const auto options = small_group();
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), options);
      std::vector<std::uint16_t> values(4 << 20);
      // Sums of bfloat16 need memory for float32 values.
      const Buffer buffer{values.data(), values.size(), DataType::bfloat16};
      group.reduce(buffer, 0).wait();
      const auto own = group.allocate(options.arena_bytes / 4 * 3);
      return std::string(own ? "ok" : "no memory");
    });
    for (int rank = 0; rank < 4; ++rank) CHECK(ranks.wait(rank).output == "ok");
  }

  TEST_CASE("nodes group: a name can be reused and two groups can be created concurrently") {
    const StoreProcess store;
    const Nodes nodes{1, 2};
    RankProcesses ranks(3, [&](int rank) {
      const auto env = make_env(store.endpoint(), rank, nodes);
      const auto sum = [](ProcessGroup& group) {
        std::int64_t value = group.rank();
        group.all_reduce(as_buffer(&value, 1)).wait();
        return value;
      };
      for (int i = 0; i < 5; ++i) {
        auto group = ProcessGroup::create(env, small_group());
        if (sum(group) != 3) return std::string("wrong");
      }
      auto options = small_group();
      auto first = ProcessGroup::create(env, options);
      options.name = "second";
      auto second = ProcessGroup::create(env, options);
      return std::to_string(sum(second) + sum(first));
    });
    for (int rank = 0; rank < 3; ++rank) CHECK(ranks.wait(rank).output == "6");
    auto client = store.connect();
    CHECK(client.list_keys(Deadline::after(60s)).empty());
  }
}

}  // namespace nodes_group_test
