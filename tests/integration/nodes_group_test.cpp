// Process groups over several nodes: the environment says which worker is on which, and those of a
// node share memory, so that it is all as on several machines but for the wire.
#include "tests/support/group_processes.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_processes.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Nodes = std::vector<int>;

int ranks_of(const Nodes& on_nodes) {
  return std::accumulate(on_nodes.begin(), on_nodes.end(), 0);
}

std::string text_of(const Nodes& on_nodes) {
  std::string text;
  for (const int ranks : on_nodes) text += (text.empty() ? "" : "+") + std::to_string(ranks);
  return text;
}

}  // namespace

TEST_SUITE("nodes group") {
  TEST_CASE("all collectives give what the serial ones do, however the ranks are spread") {
    const StoreProcess store;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    for (const Nodes& nodes : std::vector<Nodes>{
             {1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 1, 1}, {1, 3, 2}, {3, 1}, {2, 2, 2}}) {
      const std::string name = text_of(nodes);
      CAPTURE(name);
      GroupOptions options = small_group();
      options.name = name;
      RankProcesses ranks(ranks_of(nodes), [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), options);
        return RandomCalls(group, seed, nodes).run(60);
      });
      for (int rank = 0; rank < ranks_of(nodes); ++rank) CHECK(ranks.wait(rank).said == "ok");
    }
  }
}
