// A dead rank is detected on all nodes, also if only busy ranks have a connection to it.
#include "tests/support/group_processes.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/signpost.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <unistd.h>
#include <vector>

namespace nodes_watch_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

// Ranks 0 and 3, 1 and 2 have no connection until it is needed.
const std::vector<int> kNodes{2, 2};

}  // namespace

TEST_SUITE("nodes watch") {
  TEST_CASE("nodes watch: ranks that detect a death notify the ranks that wait for the dead rank") {
    const StoreProcess store;
    for (const int victim : {2, 3}) {
      const Signpost waiting{store.endpoint(), "message" + std::to_string(victim)};
      RankProcesses ranks(4, [&](int rank) {
        GroupOptions options = small_group();
        options.name = waiting.name;
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kNodes), options);
        if (rank != 3 - victim) {
          waiting.reach();
          ::pause();
        }
        float value = 0;
        const Work work = group.recv(as_buffer(&value, 1), victim);
        waiting.reach();
        return describe_failure([&] { work.wait(); });
      });
      waiting.await(4);
      ranks.kill(victim, SIGKILL);
      const std::string name = std::to_string(victim);
      const auto message = ranks.wait(3 - victim).output;
      CHECK_MESSAGE(message.find("peer " + name + ": rank " + name + " ") == 0, message);
    }
  }

  TEST_CASE("nodes watch: an idle rank reports a death on another node at its next call") {
    const StoreProcess store;
    const Signpost ready{store.endpoint(), "ready"};
    const Signpost dead{store.endpoint(), "dead"};
    RankProcesses ranks(4, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kNodes), small_group());
      ready.reach();
      if (rank == 3) ::pause();
      dead.await(1);
      float value = 0;
      return describe_failure([&] { group.recv(as_buffer(&value, 1), rank == 0 ? 2 : 0).wait(); });
    });
    ready.await(4);
    ranks.kill(3, SIGKILL);
    ranks.wait(3);
    dead.reach();
    for (const int rank : {0, 1, 2}) {
      const auto message = ranks.wait(rank).output;
      CHECK_MESSAGE(message.find("peer 3: rank 3 ") == 0, message);
    }
  }

  TEST_CASE("nodes watch: unread data of a connection does not hide a death") {
    const StoreProcess store;
    const Signpost sent{store.endpoint(), "sent"};
    const Signpost waiting{store.endpoint(), "waiting"};
    RankProcesses ranks(4, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kNodes), small_group());
      std::vector<float> values(4);
      const Buffer value = as_buffer(values.data(), 1);
      if (rank < 2) sent.await(1);
      // Rank 2 has sent its part to rank 0, which does not read it: it waits for rank 3 to connect,
      // and rank 1 for rank 0.
      Work work =
          rank < 2 ? group.gather(value, as_buffer(values.data(), 4), 0) : group.all_reduce(value);
      if (rank == 1) work = group.barrier();
      if (rank == 2) {
        error_containing("come from rank(s) 0", work);
        sent.reach();
      }
      if (rank == 0) {
        error_containing("come from rank(s) 3", work);
        waiting.reach();
      }
      return describe_failure([&] { work.wait(); });
    });
    waiting.await(1);
    ranks.kill(3, SIGKILL);
    for (const int rank : {0, 1, 2}) {
      const auto message = ranks.wait(rank).output;
      CHECK_MESSAGE(message.find("peer 3: rank 3 ") == 0, message);
    }
  }

  TEST_CASE("nodes watch: a rank whose call fails is named on all other ranks") {
    const StoreProcess store;
    RankProcesses ranks(4, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kNodes), small_group());
      if (rank > 0) return describe_failure([&] { group.barrier().wait(); });
      std::vector<float> values(16 << 20);  // twice its permitted memory
      return describe_failure(
          [&] { group.send(as_buffer(values.data(), values.size()), 1).wait(); });
    });
    const auto own = ranks.wait(0).output;
    CHECK_MESSAGE(own.find("usage: ") == 0, own);
    for (const int rank : {1, 2, 3}) {
      const auto message = ranks.wait(rank).output;
      CHECK_MESSAGE(message.find("peer 0: rank 0 failed: ") == 0, message);
    }
  }
}

}  // namespace nodes_watch_test
