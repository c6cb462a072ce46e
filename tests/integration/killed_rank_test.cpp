// SIGKILL of a rank during a collective: errors of the survivors' calls.
#include "rendezvous/control/control_page.hpp"
#include "tests/support/group_processes.hpp"
#include "tests/support/rank_processes.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace killed_rank_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

constexpr int kRanks = 4;
constexpr int kRound = 3;
constexpr std::size_t kElements = 1 << 22;

/// Reduces until that fails, and returns the error.
std::string reduce_until_failure(ProcessGroup& group) {
  const auto memory = group.allocate(kElements * sizeof(float));
  const Buffer buffer = as_buffer(static_cast<float*>(memory.get()), kElements);
  try {
    while (true) group.all_reduce(buffer).wait();
  } catch (const PeerFailed& failure) {
    return "rank " + std::to_string(failure.rank()) + ", round " + std::to_string(failure.round()) +
           ", " + failure.call() + ": " + failure.what();
  }
}

}  // namespace

TEST_SUITE("killed rank") {
  TEST_CASE("killed rank: survivors throw PeerFailed with rank and round and collective") {
    std::mt19937 random(std::random_device{}());
    for (const auto& nodes : std::vector<std::vector<int>>{{4}, {2, 2}}) {
      for (int victim = 0; victim < kRanks; ++victim) {
        const StoreProcess store;
        std::vector<control::ControlPage> pages;
        for (const int workers : nodes)
          pages.push_back(control::ControlPage::create(workers, kRound));
        RankProcesses ranks(kRanks, [&](int rank) {
          auto env = make_env(store.endpoint(), rank, nodes);
          env.control_page_fd = pages[static_cast<std::size_t>(env.node_rank)].fd();
          env.control_page_slot = env.local_rank;
          auto group = ProcessGroup::create(env, small_group());
          group.barrier().wait();
          Store::connect(store.endpoint(), Deadline::after(60s))
              .add("at work", 1, Deadline::after(60s));
          return reduce_until_failure(group);
        });
        auto client = store.connect();
        while (client.add("at work", 0, Deadline::after(60s)) < kRanks) std::this_thread::yield();
        const auto delay = std::chrono::microseconds(random() % 5000);
        for (const auto until = Deadline::after(delay); !until.passed();) std::this_thread::yield();
        ranks.kill(victim, SIGKILL);
        const std::string name = "rank " + std::to_string(victim);
        for (int rank = 0; rank < kRanks; ++rank) {
          const auto end = ranks.wait(rank);
          if (rank == victim) {
            CHECK(end.was_killed_by(SIGKILL));
            continue;
          }
          CAPTURE(end.output);
          CHECK(end.output.find(name + ", round 3, all_reduce(4194304 x float32, sum): " + name +
                                " ") == 0);
          CHECK(end.output.find(" (during all_reduce(4194304 x float32, sum), collective ") !=
                std::string::npos);
          CHECK(end.output.find(" of group \"default\" in round 3)") != std::string::npos);
        }
      }
    }
  }
}

}  // namespace killed_rank_test
