// Process groups of real processes on the gloo module: all collectives and types, messages, and
// failures of a rank. Built only if Gloo is installed.
#include "tests/support/group_processes.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/threads_at_rest.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

namespace gloo_group_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

GroupOptions gloo_group(Deadline::Duration timeout = 60s) {
  GroupOptions options;
  options.backend = "gloo";
  options.join_timeout = 60s;
  options.collective_timeout = timeout;
  return options;
}

/// Error of a thread that waits for `work` when the group is aborted.
std::string error_of_waiter(ProcessGroup& group, const Work& work) {
  std::string message;
  std::thread waiter([&] { message = describe_failure([&] { work.wait(); }); });
  await_threads_at_rest();
  group.abort("enough");
  waiter.join();
  return message;
}

}  // namespace

TEST_SUITE("gloo group") {
  TEST_CASE("gloo: a rank rejected for another backend can join with the right one") {
    for (const std::string first : {"host", "gloo"}) {
      CAPTURE(first);
      const std::string second = first == "host" ? "gloo" : "host";
      const StoreProcess store;
      RankProcesses ranks(2, [&](int rank) {
        const auto env = make_env(store.endpoint(), rank, 2);
        auto options = gloo_group();
        options.backend = first;
        std::string refusal;
        if (rank == 1) {
          const std::vector<std::string> keys{"ddprun/group/default/backend"};
          Store::connect(store.endpoint(), Deadline::after(60s)).wait(keys, Deadline::after(60s));
          auto others = options;
          others.backend = second;
          refusal = describe_failure([&] { ProcessGroup::create(env, others); });
        }
        auto group = ProcessGroup::create(env, options);
        group.barrier().wait();
        return refusal;
      });
      CHECK(ranks.wait(0).output.empty());
      CHECK(ranks.wait(1).output ==
            "usage: process group \"default\": the ranks' backends differ (rank 1 with " + second +
                ", rank 0 with " + first + "); request the same one on all ranks");
      auto client = Store::connect(store.endpoint(), Deadline::after(60s));
      CHECK(client.list_keys(Deadline::after(60s)).empty());
    }
  }

  TEST_CASE("gloo: ranks that failed to connect can create the group with another backend") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      const auto env = make_env(store.endpoint(), rank, 2);
      auto client = Store::connect(store.endpoint(), Deadline::after(60s));
      if (rank == 1) {
        auto options = gloo_group();
        options.backend = "host";
        options.join_timeout = 500ms;
        const auto failure = describe_failure([&] { ProcessGroup::create(env, options); });
        client.set("again", "yes", Deadline::after(60s));
        if (!failure.starts_with("timeout: ")) return failure;
      }
      client.get("again", Deadline::after(60s));
      auto group = ProcessGroup::create(env, gloo_group());
      group.barrier().wait();
      return std::string("ok");
    });
    CHECK(ranks.wait(0).output == "ok");
    CHECK(ranks.wait(1).output == "ok");
  }

  TEST_CASE("gloo: random calls of 1 to 5 ranks match serial results") {
    const StoreProcess store;
    std::mt19937 random(std::random_device{}());
    for (const int size : {1, 2, 3, 5}) {
      const auto seed = static_cast<unsigned>(random());
      CAPTURE(size);
      CAPTURE(seed);
      RankProcesses ranks(size, [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, size), gloo_group());
        return RandomCalls(group, seed, {}, Arithmetic::in_any_order).run(60);
      });
      for (int rank = 0; rank < size; ++rank) CHECK(ranks.wait(rank).output == "ok");
    }
    // Each group has deleted its keys: otherwise the next one of its name could not connect.
    CHECK(store.connect().number_of_keys(Deadline::after(60s)) == 0);
  }

  TEST_CASE("gloo: a killed rank ends the calls of the other ranks") {
    const StoreProcess store;
    constexpr int kSize = 3;
    RankProcesses ranks(kSize, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize), gloo_group());
      group.barrier().wait();
      if (rank == 1) ::raise(SIGKILL);
      std::vector<float> values(1000);
      return describe_failure([&] { group.all_reduce(as_buffer(values.data(), 1000)).wait(); });
    });
    for (const int rank : {0, 2}) {
      const auto message = ranks.wait(rank).output;
      CAPTURE(message);
      CHECK(message.find("peer -1: ") == 0);
      CHECK(message.find("(during all_reduce(1000 x float32, sum), collective 1 of group") !=
            std::string::npos);
    }
  }

  TEST_CASE("gloo: a stopped rank ends the calls of the other ranks at the deadline") {
    const StoreProcess store;
    constexpr int kSize = 2;
    RankProcesses ranks(kSize, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, kSize), gloo_group(2s));
      group.barrier().wait();
      if (rank == 1) ::raise(SIGSTOP);
      float value = 1;
      return describe_failure([&] { group.all_reduce(as_buffer(&value, 1)).wait(); });
    });
    const auto message = ranks.wait(0).output;
    CAPTURE(message);
    CHECK(message.find(
              "timeout: all_reduce(1 x float32, sum), collective 1 of group \"default\": ") == 0);
  }

  TEST_CASE("gloo: an abort ends a pending call") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, 2), gloo_group());
      float value = 1;
      if (rank == 1) return describe_failure([&] { group.recv(as_buffer(&value, 1), 0).wait(); });
      const Work work = group.recv(as_buffer(&value, 1), 1);
      group.abort("enough");
      return describe_failure([&] { work.wait(); });
    });
    CHECK(ranks.wait(0).output == "closed: process group \"default\" was aborted: enough");
    const auto message = ranks.wait(1).output;
    CHECK(message.find("peer -1: ") == 0);
    CHECK(message.find("(during recv(1 x float32, rank 0, tag 0) of group") != std::string::npos);
  }

  TEST_CASE("gloo: an abort ends a call that waits for a missing rank") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, 2), gloo_group(1h));
      float value = 1;
      if (rank == 1) return describe_failure([&] { group.recv(as_buffer(&value, 1), 0).wait(); });
      return error_of_waiter(group, group.all_reduce(as_buffer(&value, 1)));
    });
    CHECK(ranks.wait(0).output == "closed: process group \"default\" was aborted: enough");
    CHECK(ranks.wait(1).output.find("peer -1: ") == 0);
  }

  TEST_CASE("gloo: an abort ends a call that has sent part of its data") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, 2), gloo_group(1h));
      std::int32_t pid = ::getpid();
      group.broadcast(as_buffer(&pid, 1), 1).wait();
      std::vector<float> values(16 << 20);  // more than sockets buffer
      const Buffer buffer = as_buffer(values.data(), values.size());
      if (rank == 0) {
        await_state(pid, 'T');
        return error_of_waiter(group, group.broadcast(buffer, 0));
      }
      const Work work = group.broadcast(buffer, 0);
      std::thread waiter([&] { work.wait(); });
      await_threads_at_rest();
      ::raise(SIGSTOP);
      waiter.join();
      return std::string();
    });
    CHECK(ranks.wait(0).output == "closed: process group \"default\" was aborted: enough");
  }

  TEST_CASE("gloo: averages that could overflow are rejected with the reason") {
    auto group = ProcessGroup::create(WorkerEnv{}, gloo_group());
    std::int32_t value = 1;
    CHECK_THROWS_WITH_AS(group.all_reduce(as_buffer(&value, 1), ReduceOp::average).wait(),
                         doctest::Contains("average of int32: Gloo adds in the type itself"),
                         Error);
  }

  TEST_CASE("gloo: only local rank 0 logs why auto selected gloo") {
    std::vector<std::string> logged;
    GroupOptions options = gloo_group();
    options.backend = "auto";
    options.join_timeout = 50ms;
    options.log = [&](LogLevel level, std::string_view line) {
      CHECK(level == LogLevel::info);
      logged.emplace_back(line);
    };
    for (const int rank : {0, 1}) {
      // More ranks than the host backend connects on a node, and a port without a store.
      const auto env = make_env({.host = "127.0.0.1", .port = 1}, rank, 1025);
      CHECK(describe_failure([&] { ProcessGroup::create(env, options); }) != "no failure");
    }
    CHECK(logged == std::vector<std::string>{
                        "process group \"default\": backend host cannot be used: it connects at "
                        "most 1024 workers of a node, and these are 1025; using gloo"});
  }

  TEST_CASE("gloo: several ranks without a store are rejected") {
    WorkerEnv env;
    env.world_size = env.local_world_size = 2;
    CHECK_THROWS_WITH_AS(ProcessGroup::create(env, gloo_group()),
                         doctest::Contains("MASTER_PORT is not set"), Error);
  }
}

}  // namespace gloo_group_test
