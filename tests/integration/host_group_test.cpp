// Process groups of real processes on the host backend: they connect through a real store, get
// equal results, and detect a death at once.
#include "rendezvous/control/control_page.hpp"
#include "rendezvous/control/flight_recorder.hpp"
#include "tests/support/group_processes.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/signpost.hpp"
#include "worker_runtime/backends/host/shared_memory/sync.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace host_group_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kElements = 100'003;

/// All-reduces a buffer with a known sum; returns what is wrong with it, or "ok".
std::string check_all_reduce(ProcessGroup& group, float* values) {
  for (std::size_t i = 0; i < kElements; ++i)
    values[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(group.rank()));
  group.all_reduce(as_buffer(values, kElements)).wait();
  const auto size = static_cast<std::size_t>(group.size());
  for (std::size_t i = 0; i < kElements; ++i) {
    const std::size_t of_ranks = size * (size - 1) / 2;
    const auto expected = static_cast<float>((i % 1000) * size + of_ranks);
    if (values[i] != expected) return "wrong at " + std::to_string(i);
  }
  return "ok";
}

}  // namespace

TEST_SUITE("host group") {
  TEST_CASE("host group: processes connected through the store get correct results") {
    const StoreProcess store;
    for (const int size : {1, 2, 4}) {
      RankProcesses ranks(size, [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, size), small_group());
        std::vector<float> own(kElements);
        const auto shared = group.allocate(kElements * sizeof(float));
        std::string results = check_all_reduce(group, own.data());
        results += " " + check_all_reduce(group, static_cast<float*>(shared.get()));
        int token = rank;
        const int next = (rank + 1) % size;
        const int previous = (rank + size - 1) % size;
        group.send(as_buffer(&token, 1), next).wait();
        group.recv(as_buffer(&token, 1), previous).wait();
        return results + " " + std::to_string(token == previous);
      });
      for (int rank = 0; rank < size; ++rank) {
        const auto end = ranks.wait(rank);
        CHECK(end.exited_with(0));
        CHECK(end.output == "ok ok 1");
      }
    }
  }

  TEST_CASE("host group: all ranks of a large group name a dead rank") {
    const StoreProcess store;
    constexpr int kSize = shared_memory::kRanksWatchedMax + 10;
    constexpr int kVictim = 77;
    GroupOptions options = small_group();
    options.arena_bytes = 2 << 20;
    RankProcesses ranks(kSize, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize), options);
      const auto number = [](int from, int to) { return 1000 * from + to; };
      // A part of 70 elements is longer than a rank's share of a piece.
      std::vector<int> own(70 * kSize);
      std::vector<int> others(own.size());
      for (int to = 0; to < kSize; ++to) std::fill_n(own.begin() + 70 * to, 70, number(rank, to));
      group.all_to_all(as_buffer(own.data(), own.size()), as_buffer(others.data(), others.size()))
          .wait();
      for (int from = 0; from < kSize; ++from) {
        if (others[static_cast<std::size_t>(from) * 70 + 69] != number(from, rank))
          return "all_to_all from " + std::to_string(from);
      }
      int sum = rank;
      group.all_reduce(as_buffer(&sum, 1)).wait();
      int token = rank;
      group.send(as_buffer(&token, 1), (rank + 1) % kSize).wait();
      group.recv(as_buffer(&token, 1), (rank + kSize - 1) % kSize).wait();
      if (sum != kSize * (kSize - 1) / 2 || (token + 1) % kSize != rank)
        return std::string("wrong");
      group.barrier().wait();
      if (rank == kVictim) ::raise(SIGKILL);
      return describe_failure([&] { group.barrier().wait(); });
    });
    for (int rank = 0; rank < kSize; ++rank) {
      if (rank != kVictim) CHECK(ranks.wait(rank).output.find("peer 77: rank 77 died") == 0);
    }
  }

  TEST_CASE("host group: a name can be reused and two groups can exist at the same time") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      const auto env = make_env(store.endpoint(), rank, 2);
      std::vector<float> values(kElements);
      for (int i = 0; i < 5; ++i) {
        auto group = ProcessGroup::create(env, small_group());
        if (check_all_reduce(group, values.data()) != "ok") return std::string("wrong");
      }
      auto options = small_group();
      auto first = ProcessGroup::create(env, options);
      options.name = "second";
      auto second = ProcessGroup::create(env, options);
      return check_all_reduce(second, values.data()) + check_all_reduce(first, values.data());
    });
    for (int rank = 0; rank < 2; ++rank) CHECK(ranks.wait(rank).output == "okok");
  }

  TEST_CASE("host group: a rank killed at any time is named by every survivor") {
    const StoreProcess store;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    constexpr int kSize = 4;
    for (int attempt = 0; attempt < 6; ++attempt) {
      const int victim = static_cast<int>(random() % kSize);
      const bool in_arena = attempt % 2 == 0;
      GroupOptions options = small_group();
      options.name = "attempt" + std::to_string(attempt);
      RankProcesses ranks(kSize, [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize), options);
        std::vector<float> own(kElements);
        const auto shared = group.allocate(kElements * sizeof(float));
        float* const values = in_arena ? static_cast<float*>(shared.get()) : own.data();
        auto client = Store::connect(store.endpoint(), Deadline::after(60s));
        client.add(options.name, 1, Deadline::after(60s));
        return describe_failure([&] {
          while (true) group.all_reduce(as_buffer(values, kElements)).wait();
        });
      });
      auto client = store.connect();
      while (client.add(options.name, 0, Deadline::after(60s)) < kSize) std::this_thread::yield();
      const auto delay = std::chrono::microseconds(random() % 5000);
      for (const auto until = Deadline::after(delay); !until.passed();) std::this_thread::yield();
      ranks.kill(victim, SIGKILL);
      for (int rank = 0; rank < kSize; ++rank) {
        const auto end = ranks.wait(rank);
        if (rank == victim) {
          CHECK(end.was_killed_by(SIGKILL));
        } else {
          CHECK(end.output.find("peer " + std::to_string(victim) + ": rank " +
                                std::to_string(victim) + " died (during all_reduce(") == 0);
        }
      }
    }
  }

  TEST_CASE("host group: random calls match serial results even if ranks are stopped for a while") {
    const StoreProcess store;
    std::mt19937 random(std::random_device{}());
    for (const int size : {2, 4}) {
      const auto seed = static_cast<unsigned>(random());
      CAPTURE(seed);
      GroupOptions options = small_group();
      options.name = "random" + std::to_string(size);
      RankProcesses ranks(size, [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, size), options);
        return RandomCalls(group, seed).run(60);
      });
      for (int i = 0; i < 20; ++i) {
        const int rank = static_cast<int>(random()) & (size - 1);
        const auto pause = std::chrono::microseconds(random() % 3000);
        ranks.kill(rank, SIGSTOP);
        for (const auto until = Deadline::after(pause); !until.passed();) std::this_thread::yield();
        ranks.kill(rank, SIGCONT);
      }
      for (int rank = 0; rank < size; ++rank) CHECK(ranks.wait(rank).output == "ok");
    }
  }

  TEST_CASE("host group: a rank killed within any call is named by every survivor") {
    const StoreProcess store;
    std::mt19937 random(std::random_device{}());
    constexpr int kSize = 4;
    for (int attempt = 0; attempt < 5; ++attempt) {
      const auto seed = static_cast<unsigned>(random());
      const auto victim = static_cast<int>(random() % kSize);
      CAPTURE(seed);
      CAPTURE(victim);
      GroupOptions options = small_group();
      options.name = "kill" + std::to_string(attempt);
      RankProcesses ranks(kSize, [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize), options);
        auto client = Store::connect(store.endpoint(), Deadline::after(60s));
        client.add(options.name, 1, Deadline::after(60s));
        RandomCalls calls(group, seed);
        return describe_failure([&] {
          while (calls.run(1) == "ok") {
          }
        });
      });
      auto client = store.connect();
      while (client.add(options.name, 0, Deadline::after(60s)) < kSize) std::this_thread::yield();
      const auto delay = std::chrono::microseconds(random() % 20000);
      for (const auto until = Deadline::after(delay); !until.passed();) std::this_thread::yield();
      ranks.kill(victim, SIGKILL);
      const std::string name = std::to_string(victim);
      for (int rank = 0; rank < kSize; ++rank) {
        if (rank == victim) continue;
        CHECK(ranks.wait(rank).output.find("peer " + name + ": rank " + name + " died") == 0);
      }
    }
  }

  TEST_CASE("host group: the simultaneous death of two ranks is detected") {
    const StoreProcess store;
    constexpr int kSize = 5;
    RankProcesses ranks(kSize, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize), small_group());
      auto client = Store::connect(store.endpoint(), Deadline::after(60s));
      client.add("ready", 1, Deadline::after(60s));
      // Ranks 1 and 2 and the survivors sleep in the kernel, waiting for rank 0.
      if (rank == 0) client.get("never", Deadline::after(60s));
      return describe_failure([&] { group.barrier().wait(); });
    });
    auto client = store.connect();
    while (client.add("ready", 0, Deadline::after(60s)) < kSize) std::this_thread::yield();
    for (const int victim : {1, 2, 0}) ranks.kill(victim, SIGKILL);
    for (const int survivor : {3, 4})
      CHECK(ranks.wait(survivor).output.find("died") != std::string::npos);
  }

  TEST_CASE("host group: a death is detected at once even if another rank is late") {
    for (const std::size_t elements : {std::size_t{1}, std::size_t{1} << 20}) {
      const StoreProcess store;
      constexpr int kSize = 4;
      RankProcesses ranks(kSize, [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize), small_group());
        auto client = Store::connect(store.endpoint(), Deadline::after(60s));
        std::vector<float> values(elements);
        const Buffer buffer = as_buffer(values.data(), values.size());
        group.all_reduce(buffer).wait();
        if (rank == 2) ::raise(SIGKILL);
        if (rank == 1) client.get("the others have failed", Deadline::after(60s));
        return describe_failure([&] { group.all_reduce(buffer).wait(); });
      });
      for (const int rank : {0, 3}) CHECK(ranks.wait(rank).output.find("peer 2: rank 2 died") == 0);
      store.connect().set("the others have failed", "", Deadline::after(60s));
      CHECK(ranks.wait(1).output.find("peer 2: rank 2 died") == 0);
    }
  }

  TEST_CASE("host group: a stopped rank is named at the deadline with the collective it missed") {
    const StoreProcess store;
    constexpr int kSize = 3;
    RankProcesses ranks(kSize, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize),
                                        small_group(rank == 0 ? 1s : 60s));
      const Signpost entered{store.endpoint(), "entered"};
      if (rank == 2) ::raise(SIGSTOP);
      if (rank == 0) entered.await(1);
      float value = 1;
      const Work work = group.all_reduce(as_buffer(&value, 1));
      if (rank == 1) {
        const std::string late = "rank(s) 0, 2 had not entered it";
        const auto message = error_containing(late, work);
        entered.reach();
        if (message.find(late) == std::string::npos) return message;
      }
      return describe_failure([&] { work.wait(); });
    });
    for (const int rank : {0, 1}) {
      const auto end = ranks.wait(rank);
      CHECK(end.output.find(
                "timeout: all_reduce(1 x float32, sum), collective 0 of group \"default\": "
                "rank(s) 2 had not entered it") == 0);
    }
    ranks.kill(2, SIGCONT);
    CHECK(ranks.wait(2).output.find("timeout: ") == 0);
  }

  TEST_CASE("host group: a rank that exits early is named and one that exits last is not") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, 2), small_group());
      for (int i = 0; i < 100; ++i) group.barrier().wait();
      if (rank == 1) return std::string("left");
      return describe_failure([&] { group.barrier().wait(); });
    });
    CHECK(ranks.wait(0).output.find("peer 1: rank 1 has left the process group") == 0);
    CHECK(ranks.wait(1).output == "left");
  }

  TEST_CASE("host group: the end of the attempt ends a pending collective") {
    const StoreProcess store;
    auto page = control::ControlPage::create(2);
    RankProcesses ranks(2, [&](int rank) {
      auto env = make_env(store.endpoint(), rank, 2);
      env.control_page_fd = page.fd();
      env.control_page_slot = rank;
      auto group = ProcessGroup::create(env, small_group());
      auto client = Store::connect(store.endpoint(), Deadline::after(60s));
      client.add("ready", 1, Deadline::after(60s));
      if (rank == 1) client.get("never", Deadline::after(60s));
      return describe_failure([&] { group.barrier().wait(); });
    });
    auto client = store.connect();
    while (client.add("ready", 0, Deadline::after(60s)) < 2) std::this_thread::yield();
    page.abort({.rank = 7, .reason = "rank 7 exited with status 1"});
    CHECK(ranks.wait(0).output ==
          "peer 7: the attempt was ended: rank 7 exited with status 1 (during barrier(), "
          "collective 0 of group \"default\" in round 0)");
  }

  TEST_CASE("host group: the control page contains the waits of a rank and not its work") {
    const StoreProcess store;
    auto page = control::ControlPage::create(2);
    RankProcesses ranks(2, [&](int rank) {
      auto env = make_env(store.endpoint(), rank, 2);
      env.control_page_fd = page.fd();
      env.control_page_slot = rank;
      auto group = ProcessGroup::create(env, small_group());
      group.barrier().wait();
      if (rank == 1) ::usleep(200'000);
      float value = 1;
      const auto work = group.all_reduce(as_buffer(&value, 1));
      // A wait that fails counts as well.
      if (rank == 0) CHECK_THROWS(work.wait(Deadline::after(20ms)));
      work.wait();
      return std::string("done");
    });
    CHECK(ranks.wait(0).output == "done");
    CHECK(ranks.wait(1).output == "done");
    const auto waiting = control::read_activity(page, 0), late = control::read_activity(page, 1);
    CHECK(waiting.waits == 3);
    CHECK(late.waits == 2);
    CHECK(waiting.waited - late.waited > 100ms);
  }

  TEST_CASE("host group: a failed creation names the missing ranks") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto options = small_group();
      // The second one waits for memory that the first passes on, so it must not be the later one.
      options.join_timeout = rank == 0 ? 2s : 1s;
      auto client = Store::connect(store.endpoint(), Deadline::after(60s));
      client.add("ready", 1, Deadline::after(60s));
      while (client.add("ready", 0, Deadline::after(60s)) < 2) std::this_thread::yield();
      const auto env = make_env(store.endpoint(), rank * 2, 4);  // 1 and 3 do not call it
      return describe_failure([&] { ProcessGroup::create(env, options); });
    });
    CHECK(ranks.wait(0).output.find("timeout: process group: rank(s) 1, 3 did not come") == 0);
    CHECK(ranks.wait(1).output.find("timeout: process group: rank(s) 1, 3 did not join") == 0);
  }

  TEST_CASE("host group: a waiting rank reports which rank has not created the group") {
    const StoreProcess store;
    auto options = small_group();
    options.join_timeout = 50ms;
    options.name = "a";
    CHECK(describe_failure([&] {
            ProcessGroup::create(make_env(store.endpoint(), 1, 2), options);
          }).find("timeout: process group: rank 0 has not created group \"a\" after 0.") == 0);
  }

  TEST_CASE("host group: a failed creation leaves no address in the store and can be repeated") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      const auto env = make_env(store.endpoint(), rank, 2);
      auto client = Store::connect(store.endpoint(), Deadline::after(60s));
      auto options = small_group();
      options.join_timeout = 50ms;
      if (rank == 0) {
        describe_failure([&] { ProcessGroup::create(env, options); });
        const std::string found = describe_failure(
            [&] { client.get("ddprun/group/default/host", Deadline::after(20ms)); });
        if (found.find("timeout: ") != 0) return found;
        client.set("again", "yes", Deadline::after(60s));
      }
      client.get("again", Deadline::after(60s));
      return describe_failure([&] { ProcessGroup::create(env, small_group()).barrier().wait(); });
    });
    for (int rank = 0; rank < 2; ++rank) CHECK(ranks.wait(rank).output == "no failure");
  }

  TEST_CASE("host group: an unusable worker environment is reported with the reason") {
    WorkerEnv env = make_env({}, 0, 2);
    CHECK(describe_failure([&] {
            ProcessGroup::create(env, small_group());
          }).find("MASTER_PORT is not set") != std::string::npos);
    env.master_port = 1;
    env.local_world_size = 1025;
    CHECK(describe_failure([&] {
            ProcessGroup::create(env, small_group());
          }).find("at most 1024 workers of a node, and these are 1025") != std::string::npos);
    auto options = small_group();
    options.backend = "carrier_pigeon";
    CHECK(describe_failure([&] { ProcessGroup::create(env, options); }) ==
          "usage: process group \"default\": there is no backend \"carrier_pigeon\" (known: auto, "
          "nccl, host, gloo, openmpi, mpich)");
  }
}

}  // namespace host_group_test
