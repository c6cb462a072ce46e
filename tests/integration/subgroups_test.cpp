// Subgroups of processes, on one node and on several.
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/group_processes.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/subgroup_calls.hpp"
#include "worker_runtime/group/registry.hpp"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <fcntl.h>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace subgroups_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Nodes = std::vector<int>;

/// Nodes of the ranks, and the backend.
struct Setting {
  Nodes nodes;
  std::string backend = "host";

  int size() const { return std::accumulate(nodes.begin(), nodes.end(), 0); }
  GroupOptions options(Deadline::Duration timeout = 60s) const {
    GroupOptions options = small_group(timeout);
    options.backend = backend;
    return options;
  }
  ProcessGroup create(const StoreProcess& store, int rank) const {
    return ProcessGroup::create(make_env(store.endpoint(), rank, nodes), options());
  }
};

/// Gloo if built.
std::vector<Setting> settings(const std::vector<Nodes>& all_nodes) {
  std::vector<Setting> settings;
  settings.reserve(all_nodes.size() + 1);
  for (const auto& nodes : all_nodes) settings.push_back({nodes});
  for (const auto& backend : available_backends()) {
    const bool is_usable = backend.name == "gloo" && backend.unavailable_reason.empty();
    if (is_usable) settings.push_back({all_nodes.front(), "gloo"});
  }
  return settings;
}

}  // namespace

TEST_SUITE("subgroups of processes") {
  TEST_CASE("subgroups: overlapping and nested groups work concurrently with the default group") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    for (const auto& setting : settings({{4}, {2, 2}, {1, 2, 2}})) {
      const StoreProcess store;
      RankProcesses ranks(setting.size(), [&](int rank) {
        return exercise_subgroups(setting.create(store, rank), seed, Arithmetic::in_any_order);
      });
      for (int rank = 0; rank < setting.size(); ++rank) CHECK(ranks.wait(rank).output == "ok");
    }
  }

  TEST_CASE("subgroups: a killed member is named by its rank in the default group") {
    for (const auto& setting : settings({{4}, {2, 2}})) {
      const StoreProcess store;
      RankProcesses ranks(4, [&](int rank) {
        auto world = setting.create(store, rank);
        auto group = world.new_group({1, 3}, "pair");
        if (!group) return std::string("not in it");
        group->barrier().wait();
        if (rank == 3) ::raise(SIGKILL);
        std::vector<float> values(1000);
        return describe_failure(
            [&] { group->all_reduce(as_buffer(values.data(), values.size())).wait(); });
      });
      const auto message = ranks.wait(1).output;
      CAPTURE(message);
      if (setting.backend == "host") CHECK(message.find("peer 3: rank 3 ") == 0);
      CHECK(message.find("(during all_reduce(1000 x float32, sum), collective 1 of group "
                         "\"default/pair\")") != std::string::npos);
      CHECK(ranks.wait(3).was_killed_by(SIGKILL));
    }
  }

  TEST_CASE("subgroups: a stopped member is named by its rank in the default group") {
    for (const auto& setting : {Setting{{4}}, Setting{{2, 2}}}) {
      const StoreProcess store;
      RankProcesses ranks(4, [&](int rank) {
        auto world = setting.create(store, rank);
        auto group = world.new_group({1, 3}, "pair", setting.options(1s));
        if (!group) return std::string("not in it");
        if (rank == 3) ::raise(SIGSTOP);
        return describe_failure([&] { group->barrier().wait(); });
      });
      const auto message = ranks.wait(1).output;
      const bool is_one_node = setting.nodes.size() == 1;
      const std::string late =
          is_one_node ? "rank(s) 3 had not entered it" : "nothing had come from rank(s) 3";
      CHECK_MESSAGE(
          message.find("timeout: barrier(), collective 0 of group \"default/pair\": " + late) == 0,
          message);
      ranks.kill(3, SIGCONT);
      ranks.wait(3);
    }
  }

  TEST_CASE("subgroups: creations in different orders are reported on every backend") {
    for (const auto& setting : settings({{3}, {1, 2}})) {
      const StoreProcess store;
      RankProcesses ranks(3, [&](int rank) {
        auto world = setting.create(store, rank);
        return describe_failure([&] {
          world.new_group(rank == 1 ? every(1, 1, 3) : every(2, 0, 3));
          world.new_group(rank == 1 ? every(2, 0, 3) : every(1, 1, 3));
        });
      });
      for (int rank = 0; rank < 3; ++rank) {
        const auto message = ranks.wait(rank).output;
        CHECK_MESSAGE(
            message.find("usage: new_group: rank 0 creates group \"default/0\" of ranks 0, 2, "
                         "but rank 1 creates group \"default/0\" of ranks 1-2") == 0,
            message);
      }
    }
  }

  TEST_CASE("subgroups: a rank that dies before a creation is named by the waiting ranks") {
    const StoreProcess store;
    const Setting setting{{2, 2}};
    // Rank 2 may leave the barrier before the others do, and its death would end theirs.
    std::array<int, 2> left{};
    REQUIRE(::pipe2(left.data(), O_CLOEXEC) == 0);
    const UniqueFd left_reader(left[0]);
    UniqueFd left_writer(left[1]);
    RankProcesses ranks(4, [&](int rank) {
      auto world = setting.create(store, rank);
      world.barrier().wait();
      char byte = 0;
      if (rank == 2) {
        ::close(left[1]);
        for (int others = 3; others > 0; --others) {
          if (::read(left[0], &byte, 1) != 1) throw std::runtime_error("another rank has failed");
        }
        ::raise(SIGKILL);
      }
      if (::write(left[1], &byte, 1) != 1) throw std::runtime_error("write");
      return describe_failure([&] { world.new_group({0, 2, 3}); });
    });
    left_writer = UniqueFd();
    for (const int rank : {0, 1, 3}) {
      const auto message = ranks.wait(rank).output;
      CHECK_MESSAGE(message.find("peer 2: rank 2 ") == 0, message);
    }
    CHECK(ranks.wait(2).output.empty());
  }

  TEST_CASE("subgroups: many consecutive groups leave no keys in the store") {
    const StoreProcess store;
    const Setting setting{{1, 2}};
    RankProcesses ranks(3, [&](int rank) {
      auto world = setting.create(store, rank);
      return describe_failure([&] {
        for (int i = 0; i < 10; ++i) {
          auto group = world.new_group(i % 2 == 0 ? every(1, 0, 3) : every(2, 0, 3));
          if (group) group->barrier().wait();
          world.barrier().wait();
        }
        world.barrier().wait();
      });
    });
    for (int rank = 0; rank < 3; ++rank) CHECK(ranks.wait(rank).output == "no failure");
    CHECK(store.connect().number_of_keys(Deadline::after(60s)) == 0);
  }
}

}  // namespace subgroups_test
