// Waits for ranks that die at moments which only a kill hits: simulated by a thread that ends like
// a killed process.
#include "worker_runtime/backends/host/shared_memory/sync.hpp"

#include "worker_runtime/backends/host/shared_memory/region.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <vector>

namespace sync_test {

using namespace ddprun;
using namespace ddprun::shared_memory;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kArenaBytes = 2 << 20;

/// The rank that `call` reports as failed, or its other result.
int failed_rank(const std::function<void()>& call) {
  try {
    call();
  } catch (const PeerFailed& failure) {
    return failure.rank();
  }
  return -1;
}

}  // namespace

TEST_SUITE("sync") {
  TEST_CASE("sync: a sleeping rank detects a death between arrival and signal") {
    const auto region = Region::anonymous(2, kArenaBytes);
    const Sync waiting(region, 0, std::nullopt);
    Counter& step = region.line(1).step(0);
    std::thread victim([&] {
      while (step.sleepers.load() == 0) std::this_thread::yield();
      Sync(region, 1, std::nullopt).hold_life();
    });
    CHECK(failed_rank([&] { waiting.wait(step, 1, 1, Deadline::after(10s)); }) == 1);
    victim.join();
  }

  TEST_CASE("sync: a rank that dies while it records a failure is reported") {
    const auto region = Region::anonymous(3, kArenaBytes);
    std::thread([&] {
      Sync(region, 2, std::nullopt).hold_life();
      region.head().failure.claim = 3;
    }).join();
    const Sync waiting(region, 0, std::nullopt);
    CHECK(failed_rank([&] { waiting.check(); }) == 2);
    // Although rank 1 is awaited.
    CHECK(failed_rank([&] { waiting.wait(region.line(1).step(0), 1, 1, Deadline::after(10s)); }) ==
          2);
  }

  TEST_CASE("sync: a record of a failure is awaited until it is complete or its rank has died") {
    for (const bool dies : {false, true}) {
      const auto region = Region::anonymous(2, kArenaBytes);
      const Sync waiting(region, 0, std::nullopt);
      waiting.await_record();  // none has begun
      Sync recording(region, 1, std::nullopt);
      std::atomic<bool> may_end = false;
      std::thread author([&] {
        recording.hold_life();
        region.head().failure.claim = 2;
        while (!may_end) std::this_thread::yield();
        if (!dies) region.head().failure.word = static_cast<std::uint32_t>(FailureKind::aborted);
        if (!dies) recording.release_life();
      });
      while (region.head().failure.claim == 0) std::this_thread::yield();
      auto result = std::async(std::launch::async, [&] { waiting.await_record(); });
      CHECK(result.wait_for(50ms) == std::future_status::timeout);
      may_end = true;
      author.join();
      result.get();
    }
  }

  TEST_CASE("sync: a death wakes a sleeping rank even if another one was woken") {
    const auto region = Region::anonymous(4, kArenaBytes);
    Sync dying(region, 3, std::nullopt);
    Counter& step = region.line(3).step(0);
    std::thread victim([&] {
      dying.hold_life();
      while (step.sleepers.load() < 3) std::this_thread::yield();
    });
    // All wait for a value that rank 3 never publishes; the kernel wakes one of them.
    std::vector<std::thread> sleepers;
    std::array<int, 3> failed{};
    sleepers.reserve(failed.size());
    for (int rank = 0; rank < 3; ++rank) {
      sleepers.emplace_back([&, rank] {
        const Sync waiting(region, rank, std::nullopt);
        failed[static_cast<std::size_t>(rank)] =
            failed_rank([&] { waiting.wait(step, 1, 3, Deadline::after(10s)); });
      });
    }
    victim.join();
    for (auto& sleeper : sleepers) sleeper.join();
    CHECK(failed == std::array{3, 3, 3});
  }

  TEST_CASE("sync: a rank that waits for all detects a death while others are late") {
    const auto region = Region::anonymous(3, kArenaBytes);
    Sync waiting(region, 0, std::nullopt);
    const auto step_of = [&](int rank) -> Counter& { return region.line(rank).step(0); };
    waiting.publish(step_of(0), 1);
    bool is_asleep = false;
    SUBCASE("without waiting") {}
    SUBCASE("while spinning") {
      for (int rank = 0; rank < 3; ++rank) Sync(region, rank, std::nullopt).publish_cores();
      waiting.read_cores();
    }
    SUBCASE("while sleeping") {
      is_asleep = true;
    }
    std::thread victim([&] {
      Sync dying(region, 2, std::nullopt);
      dying.hold_life();
      while (is_asleep && step_of(1).sleepers.load() == 0) std::this_thread::yield();
    });
    if (!is_asleep) victim.join();
    CHECK(failed_rank([&] { waiting.wait_all(step_of, 1, Deadline::after(10s)); }) == 2);
    if (is_asleep) victim.join();
  }

  TEST_CASE("sync: a death is detected even if a rank cannot watch all others") {
    constexpr int kVictim = kRanksWatchedMax;
    const auto region = Region::anonymous(kRanksWatchedMax + 1, kArenaBytes);
    const auto step_of = [&](int rank) -> Counter& { return region.line(rank).step(0); };
    for (int rank = 0; rank <= kRanksWatchedMax; ++rank) {
      if (rank != 1 && rank != kVictim) Sync(region, rank, std::nullopt).publish(step_of(rank), 1);
    }
    std::vector<int> sleeping = {0};
    Deadline::Duration death_check_period = kDeathCheckPeriod;
    SUBCASE("by a sleeping neighbour, which fails the group") {
      sleeping.push_back(kVictim - 1);
      death_check_period = 1h;
    }
    SUBCASE("by the periodic check if no neighbour sleeps") {}
    std::thread victim([&] {
      Sync(region, kVictim, std::nullopt).hold_life();
      while (step_of(1).sleepers.load() < sleeping.size()) std::this_thread::yield();
    });
    std::vector<std::thread> sleepers;
    std::vector<int> failed(sleeping.size());
    for (std::size_t i = 0; i < sleeping.size(); ++i) {
      sleepers.emplace_back([&, i] {
        const Sync waiting(region, sleeping[i], std::nullopt, {}, death_check_period);
        failed[i] = failed_rank([&] { waiting.wait_all(step_of, 1, Deadline::after(60s)); });
      });
    }
    victim.join();
    for (auto& sleeper : sleepers) sleeper.join();
    CHECK(failed == std::vector<int>(sleeping.size(), kVictim));
  }

  TEST_CASE("sync: an arrival counts even if the rank dies afterwards") {
    const auto region = Region::anonymous(3, kArenaBytes);
    const Sync waiting(region, 0, std::nullopt);
    const auto step_of = [&](int rank) -> Counter& { return region.line(rank).step(0); };
    for (const int rank : {0, 2}) waiting.publish(step_of(rank), 1);
    std::thread([&] { Sync(region, 2, std::nullopt).hold_life(); }).join();
    CHECK(waiting.wait_all(step_of, 1, Deadline::after(1ms)) == 1);
    waiting.publish(step_of(1), 1);
    CHECK_FALSE(waiting.wait_all(step_of, 1, Deadline::after(1ms)));
  }

  TEST_CASE("sync: ranks spin only if they are bound to different cores") {
    cpu_set_t all;
    REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
    std::vector<int> cores;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &all)) cores.push_back(core);
    }
    struct Case {
      std::array<int, 2> cores;
      bool spins;
    };
    std::vector<Case> cases = {{{cores.front(), cores.front()}, false}};
    if (cores.size() > 1) cases.push_back({{cores[0], cores[1]}, true});
    for (const Case& one : cases) {
      CAPTURE(one.spins);
      const auto region = Region::anonymous(2, kArenaBytes);
      Sync sync(region, 0, std::nullopt);
      CHECK_FALSE(sync.spins());
      for (int rank = 0; rank < 2; ++rank) {
        std::thread([&] {
          cpu_set_t bound;
          CPU_ZERO(&bound);
          CPU_SET(one.cores[static_cast<std::size_t>(rank)], &bound);
          CHECK(::sched_setaffinity(0, sizeof bound, &bound) == 0);
          Sync(region, rank, std::nullopt).publish_cores();
        }).join();
      }
      sync.read_cores();
      CHECK(sync.spins() == one.spins);
    }
  }
}

}  // namespace sync_test
