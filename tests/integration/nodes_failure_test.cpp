// Errors of the ranks of several nodes when one of them fails.
#include "rendezvous/control/control_page.hpp"
#include "tests/support/group_processes.hpp"
#include "tests/support/limited_address_space.hpp"
#include "tests/support/random_calls.hpp"
#include "tests/support/rank_processes.hpp"
#include "tests/support/signpost.hpp"
#include "worker_runtime/backends/host/node_meeting.hpp"
#include "worker_runtime/backends/host/tcp/messenger.hpp"
#include <ddprun/process_group.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace nodes_failure_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Nodes = std::vector<int>;

int ranks_of(const Nodes& on_nodes) {
  return std::accumulate(on_nodes.begin(), on_nodes.end(), 0);
}

void pass_time(std::chrono::microseconds time) {
  for (const auto until = Deadline::after(time); !until.passed();) std::this_thread::yield();
}

std::vector<int> tcp_connections() {
  std::vector<int> connections;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) connections.push_back(fd);
  }
  return connections;
}

/// First bytes of the longest message, with tag 2, as sent to another node.
struct LongMessage {
  std::uint32_t magic = 0x6464'704d;
  std::int32_t tag = 2;
  std::uint64_t elements = std::uint64_t{1} << 43U;
  std::uint64_t type = static_cast<std::uint64_t>(DataType::uint8);
  std::uint64_t first_elements = 0;
};

}  // namespace

TEST_SUITE("nodes failure") {
  TEST_CASE("nodes group: a rank killed within any call is named by every survivor on all nodes") {
    const StoreProcess store;
    std::mt19937 random(std::random_device{}());
    int attempt = 0;
    for (const Nodes& nodes : std::vector<Nodes>{{1, 1}, {2, 2}, {1, 2}, {2, 1, 1}, {2, 2}}) {
      const int size = ranks_of(nodes);
      const auto seed = static_cast<unsigned>(random());
      const auto victim = static_cast<int>(random() % static_cast<unsigned>(size));
      CAPTURE(seed);
      CAPTURE(victim);
      GroupOptions options = small_group();
      options.name = "kill" + std::to_string(attempt++);
      const Signpost ready{store.endpoint(), options.name};
      RankProcesses ranks(size, [&](int rank) {
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), options);
        ready.reach();
        RandomCalls calls(group, seed, nodes);
        return describe_failure([&] {
          while (calls.run(1) == "ok") {
          }
        });
      });
      ready.await(size);
      pass_time(std::chrono::microseconds(random() % 20000));
      ranks.kill(victim, SIGKILL);
      const std::string name = std::to_string(victim);
      for (int rank = 0; rank < size; ++rank) {
        if (rank == victim) continue;
        const auto message = ranks.wait(rank).output;
        CHECK_MESSAGE(message.find("peer " + name + ": rank " + name + " ") == 0, message);
      }
    }
  }

  TEST_CASE("nodes group: a stopped rank is named by its node, or by others after its silence") {
    const StoreProcess store;
    for (const Nodes& nodes : std::vector<Nodes>{{1, 1}, {2, 2}, {1, 2}}) {
      const int size = ranks_of(nodes);
      const int victim = size - 1;
      const bool is_alone = nodes.back() == 1;
      const std::string name = "stop" + std::to_string(size) + std::to_string(nodes[0]);
      RankProcesses ranks(size, [&](int rank) {
        // On a busy machine, ranks enter the collective at any time. So only one rank times out.
        const int reporter = is_alone ? 0 : victim - 1;
        GroupOptions options = small_group(rank == reporter ? 1s : 60s);
        options.name = name;
        auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), options);
        if (rank == victim) ::raise(SIGSTOP);
        std::vector<float> values(100'000);
        const auto begin = Deadline::Clock::now();
        const auto message = describe_failure(
            [&] { group.all_reduce(as_buffer(values.data(), values.size())).wait(); });
        // It also waits half a second for a report of the late rank's node.
        const bool is_early = is_alone && rank == 0 && Deadline::Clock::now() - begin < 1500ms;
        return is_early ? "too early: " + message : message;
      });
      const std::string late = "rank(s) " + std::to_string(victim);
      const std::string expected =
          "timeout: all_reduce(100000 x float32, sum), collective 0 of group \"" + name +
          "\": " + (is_alone ? "nothing had come from " + late : late + " had not entered it");
      for (int rank = 0; rank < size; ++rank) {
        if (rank == victim) continue;
        const auto message = ranks.wait(rank).output;
        CHECK_MESSAGE(message.find(expected) == 0, message);
      }
      ranks.kill(victim, SIGCONT);
      CHECK(ranks.wait(victim).output.find("timeout: ") == 0);
    }
  }

  TEST_CASE("nodes group: a timeout names the late local rank or the silent remote rank") {
    const StoreProcess store;
    const Nodes nodes{2, 2};
    RankProcesses ranks(4, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), small_group());
      const Signpost seen{store.endpoint(), "seen"};
      if (rank == 1) seen.await(2);
      float value = 1;
      const Work work = group.all_reduce(as_buffer(&value, 1));
      std::string result = "ok";
      if (rank == 0 || rank == 2) {
        result = error_containing(rank == 0 ? "rank(s) 1 had not" : "come from rank(s) 0", work);
        seen.reach();
      }
      work.wait();
      return result;
    });
    const std::string call = "timeout: all_reduce(1 x float32, sum), collective 0 of group ";
    const auto here = ranks.wait(0).output;
    const auto elsewhere = ranks.wait(2).output;
    CHECK(here.find(call) == 0);
    CHECK_MESSAGE(here.find(": rank(s) 1 had not entered it") != std::string::npos, here);
    CHECK(elsewhere.find(call) == 0);
    CHECK_MESSAGE(elsewhere.find(": nothing had come from rank(s) 0") != std::string::npos,
                  elsewhere);
    for (const int rank : {1, 3}) CHECK(ranks.wait(rank).output == "ok");
  }

  TEST_CASE("nodes group: a timeout does not name a rank that waits for another node") {
    const StoreProcess store;
    RankProcesses ranks(4, [&](int rank) {
      // Rank 1 waits for rank 0, which waits for the node of rank 3. Its time ends first.
      GroupOptions options = small_group(rank == 1 ? 1s : rank == 2 ? 2s : 60s);
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, {2, 2}), options);
      const Signpost entered{store.endpoint(), "entered"};
      if (rank == 3) ::raise(SIGSTOP);
      double value = 1;
      if (rank == 1) entered.await(1);
      const Work work = group.all_reduce(as_buffer(&value, 1));
      if (rank == 0) entered.reach();
      return describe_failure([&] { work.wait(); });
    });
    for (const int rank : {0, 1, 2}) {
      const auto message = ranks.wait(rank).output;
      CHECK_MESSAGE(message.find(": rank(s) 3 had not entered it") != std::string::npos, message);
    }
    ranks.kill(3, SIGCONT);
    CHECK(ranks.wait(3).output.find("timeout: ") == 0);
  }

  TEST_CASE("nodes group: different calls on different nodes are reported with their ranks") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group =
          ProcessGroup::create(make_env(store.endpoint(), rank, Nodes{1, 1}), small_group());
      std::vector<float> values(100);
      const Buffer buffer = as_buffer(values.data(), rank == 0 ? 100 : 99);
      const auto first = describe_failure([&] { group.all_reduce(buffer).wait(); });
      const auto second = describe_failure([&] { group.barrier().wait(); });
      return first == second ? first : first + " then " + second;
    });
    const std::string message = ranks.wait(0).output;
    CHECK(ranks.wait(1).output == message);
    CHECK(message.find("usage: collective 0 of group \"default\": rank ") == 0);
    CHECK(message.find("called all_reduce(100 x float32, sum)") != std::string::npos);
    CHECK(message.find("called all_reduce(99 x float32, sum)") != std::string::npos);
  }

  TEST_CASE("nodes group: an abort ends the calls of all nodes at once and is permanent") {
    const StoreProcess store;
    const Nodes nodes{1, 2};
    const Signpost ready{store.endpoint(), "abort"};
    RankProcesses ranks(3, [&](int rank) {
      auto group = ProcessGroup::create(make_env(store.endpoint(), rank, nodes), small_group());
      if (rank == 2) {
        ready.await(2);
        group.abort("out of cake");
      } else {
        ready.reach();
      }
      const auto first = describe_failure([&] { group.barrier().wait(); });
      const auto second = describe_failure([&] { group.barrier().wait(); });
      return first == second ? first : first + " then " + second;
    });
    for (const int rank : {0, 1}) {
      const auto message = ranks.wait(rank).output;
      CHECK_MESSAGE(
          message.find("peer 2: process group \"default\" was aborted by rank 2: out of cake") == 0,
          message);
    }
    CHECK(ranks.wait(2).output.find("closed: ") == 0);
  }

  TEST_CASE("nodes group: the end of the attempt ends a pending wait for another node") {
    const StoreProcess store;
    auto page = control::ControlPage::create(1);
    const Signpost ready{store.endpoint(), "page"};
    RankProcesses ranks(2, [&](int rank) {
      auto env = make_env(store.endpoint(), rank, Nodes{1, 1});
      if (rank == 0) env.control_page_fd = page.fd();
      auto group = ProcessGroup::create(env, small_group());
      ready.reach();
      if (rank == 1) ::pause();
      return describe_failure([&] { group.barrier().wait(); });
    });
    ready.await(2);
    page.abort({.rank = 7, .reason = "rank 7 exited with status 1"});
    CHECK(ranks.wait(0).output.find("peer 7: the attempt was ended: rank 7 exited with status 1") ==
          0);
  }

  TEST_CASE("nodes group: a rank that exits early is named and one that exits last is not") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group =
          ProcessGroup::create(make_env(store.endpoint(), rank, Nodes{1, 1}), small_group());
      for (int i = 0; i < 100; ++i) group.barrier().wait();
      if (rank == 1) return std::string("left");
      return describe_failure([&] { group.barrier().wait(); });
    });
    CHECK(ranks.wait(0).output.find("peer 1: rank 1 has left the process group") == 0);
    CHECK(ranks.wait(1).output == "left");
  }

  TEST_CASE("nodes group: a failed creation names missing ranks on any node") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto options = small_group();
      options.join_timeout = 2s;
      const auto env = make_env(store.endpoint(), rank * 2, Nodes{2, 2});  // 1 and 3 do not call it
      const Signpost started{store.endpoint(), "started"};
      started.reach();
      started.await(2);
      return describe_failure([&] { ProcessGroup::create(env, options); });
    });
    for (const int rank : {0, 1}) {
      const auto message = ranks.wait(rank).output;
      CHECK_MESSAGE(message.find("timeout: process group: rank(s) 1, 3 did not come") == 0,
                    message);
    }
  }

  TEST_CASE("nodes group: a rank that publishes its address but does not connect is named") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto options = small_group();
      options.join_timeout = 2s;
      const auto env = make_env(store.endpoint(), rank, Nodes{1, 1});
      if (rank == 0) return describe_failure([&] { ProcessGroup::create(env, options); });
      auto client = store.connect();
      const host::Presence own{.node = 1, .address = {{"127.0.0.1"}, 1}, .message_port = 1};
      host::meet_nodes(client, "ddprun/group/default", std::nullopt, env, RankNames(), own,
                       Deadline::after(60s));
      return std::string("met");
    });
    const auto message = ranks.wait(0).output;
    CHECK_MESSAGE(message.find("timeout: process group: rank(s) 1 did not join after ") == 0,
                  message);
    CHECK(ranks.wait(1).output == "met");
  }

  TEST_CASE("nodes group: a send does not wait for its receive and a dead sender is named") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group =
          ProcessGroup::create(make_env(store.endpoint(), rank, Nodes{1, 1}), small_group());
      std::vector<float> values(1 << 20);
      if (rank == 1) {
        group.send(as_buffer(values.data(), values.size()), 0, 1).wait();
        group.barrier().wait();
        ::raise(SIGKILL);
      }
      group.barrier().wait();
      return describe_failure([&] { group.recv(as_buffer(values.data(), 1), 1, 2).wait(); });
    });
    const auto message = ranks.wait(0).output;
    CHECK_MESSAGE(message.find("peer 1: rank 1 ") == 0, message);
    CHECK(ranks.wait(1).was_killed_by(SIGKILL));
  }

  TEST_CASE("nodes group: a send blocks while too many bytes are pending") {
    const StoreProcess store;
    const Signpost done{store.endpoint(), "blocked"};
    RankProcesses ranks(2, [&](int rank) {
      auto group =
          ProcessGroup::create(make_env(store.endpoint(), rank, Nodes{1, 1}), small_group(1s));
      if (rank == 0) {
        done.await(1);
        return std::string("idle");
      }
      // Far more than connections buffer in addition to the sender's limit.
      std::vector<float> values(1 << 20);
      const auto message = describe_failure([&] {
        for (std::size_t i = 0; i < 4 * tcp::kQueuedMessagesMax; ++i)
          group.send(as_buffer(values.data(), values.size()), 0).wait();
      });
      done.reach();
      return message;
    });
    CHECK(ranks.wait(1).output.find("timeout: send to rank 0 (tag 0) on rank 1: 32 earlier "
                                    "messages had not been received after 1.") == 0);
    CHECK(ranks.wait(0).output == "idle");
  }

  TEST_CASE("nodes group: a receiver allocates memory for a message only as it arrives") {
    const StoreProcess store;
    const Signpost done{store.endpoint(), "received"};
    RankProcesses ranks(2, [&](int rank) {
      auto group =
          ProcessGroup::create(make_env(store.endpoint(), rank, Nodes{1, 1}), small_group(2s));
      const auto before = tcp_connections();
      float value = 1;
      if (rank == 0) {
        group.recv(as_buffer(&value, 1), 1, 1).wait();
        const LimitedAddressSpace limit(std::size_t{1} << 30);
        group.barrier().wait();
        const auto message =
            describe_failure([&] { group.recv(as_buffer(&value, 1), 1, 2).wait(); });
        done.reach();
        return message;
      }
      group.send(as_buffer(&value, 1), 0, 1).wait();
      group.barrier().wait();
      auto for_messages = tcp_connections();
      std::erase_if(for_messages, [&](int fd) {
        return std::find(before.begin(), before.end(), fd) != before.end();
      });
      const LongMessage message;
      if (for_messages.size() == 1) ::send(for_messages[0], &message, sizeof message, MSG_NOSIGNAL);
      done.await(1);
      return std::to_string(for_messages.size());
    });
    const auto message = ranks.wait(0).output;
    CHECK_MESSAGE(message.find("timeout: recv from rank 1 (tag 2)") == 0, message);
    CHECK(ranks.wait(1).output == "1");
  }

  TEST_CASE("nodes group: a receiver buffers only a limited number of unexpected messages") {
    const StoreProcess store;
    RankProcesses ranks(2, [&](int rank) {
      auto group =
          ProcessGroup::create(make_env(store.endpoint(), rank, Nodes{1, 1}), small_group());
      std::int32_t value = 0;
      return describe_failure([&] {
        if (rank == 0) group.recv(as_buffer(&value, 1), 1, 7).wait();
        for (std::size_t i = 0; i < 2 * tcp::kEarlyMessagesMax; ++i)
          group.send(as_buffer(&value, 1), 0, 8).wait();
        group.barrier().wait();
      });
    });
    const std::string expected = "usage: recv from rank 1 (tag 7): 1024 messages with other tags";
    CHECK(ranks.wait(0).output.find(expected) == 0);
    CHECK(ranks.wait(1).output.find(expected) == 0);
  }
}

}  // namespace nodes_failure_test
