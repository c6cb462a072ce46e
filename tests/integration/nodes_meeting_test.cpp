// Influence of other store clients on the creation of a group.
#include "tests/support/failure_text.hpp"
#include "tests/support/group_processes.hpp"
#include "tests/support/test_store.hpp"
#include "worker_runtime/backends/host/node_meeting.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nodes_meeting_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

const std::string kName = "ddprun/group/test";
const Digest kRunKey = sha256("the key of the run");

host::Presence presence_of(int rank) {
  return {.node = rank,
          .address = {{"127.0.0.1"}, static_cast<std::uint16_t>(4000 + rank)},
          .message_port = 4711};
}

/// Rank `rank` of two, each on its own node.
host::NodeMeeting meet(const TestStore& test_store, int rank, const std::optional<Digest>& run_key,
                       Deadline deadline = Deadline::after(20s)) {
  Store store = test_store.connect();
  const WorkerEnv env{.rank = rank, .world_size = 2, .node_rank = rank, .node_count = 2};
  return host::meet_nodes(store, kName, run_key, env, RankNames(), presence_of(rank), deadline);
}

/// As possible for any client of the store.
std::vector<std::string> keys_of(const TestStore& store) {
  return store.connect().list_keys(Deadline::after(20s));
}

/// Waits for the key of the rank's presence.
std::string key_of_presence(TestStore& store, int rank) {
  std::string found;
  REQUIRE(store.wait_until([&](const StoreServerStats&) {
    const auto keys = keys_of(store);
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const std::string& one) {
      return one.ends_with("/rank" + std::to_string(rank));
    });
    if (key != keys.end()) found = *key;
    return key != keys.end();
  }));
  return found;
}

}  // namespace

TEST_SUITE("nodes meeting") {
  TEST_CASE("nodes meeting: ranks get a new common key and each other's addresses") {
    TestStore store;
    std::vector<Digest> keys;
    for (const auto& run_key : {std::optional(kRunKey), std::optional(kRunKey), {}, {}}) {
      auto other = std::async(std::launch::async, [&] { return meet(store, 1, run_key); });
      const auto own = meet(store, 0, run_key);
      const auto theirs = other.get();
      CHECK(own.key == theirs.key);
      CHECK(own.prefix == theirs.prefix);
      CHECK(own.workers == std::vector{presence_of(0), presence_of(1)});
      CHECK(std::find(keys.begin(), keys.end(), own.key) == keys.end());
      keys.push_back(own.key);
    }
  }

  TEST_CASE("nodes meeting: the end of the store is the error, not that of a later request") {
    auto store = std::make_unique<StoreProcess>();
    auto meeting = std::async(std::launch::async, [client = store->connect()]() mutable {
      const WorkerEnv env{.rank = 0, .world_size = 2, .node_rank = 0, .node_count = 2};
      return describe_failure([&] {
        host::meet_nodes(client, kName, kRunKey, env, RankNames(), presence_of(0),
                         Deadline::after(60s));
      });
    });
    store->connect().wait(std::vector{kName + "/token"}, Deadline::after(20s));
    store.reset();
    const auto text = meeting.get();
    CHECK_MESSAGE(text.find("earlier error") == std::string::npos, text);
    CHECK_MESSAGE(text.find("network: ") == 0, text);
  }

  TEST_CASE("nodes meeting: key names in the store do not contain the group's token") {
    TestStore store;
    auto first = std::async(std::launch::async, [&] { return meet(store, 0, kRunKey); });
    key_of_presence(store, 0);
    const auto token = store.connect().get(kName + "/token", Deadline::after(20s));
    CHECK_FALSE(token.empty());
    for (const auto& key : keys_of(store)) CHECK(key.find(token) == std::string::npos);
    meet(store, 1, kRunKey);
    first.get();
  }

  TEST_CASE("nodes meeting: an address changed by another store client is rejected") {
    TestStore store;
    auto first = std::async(std::launch::async, [&] { return meet(store, 0, kRunKey); });
    const auto key = key_of_presence(store, 0);
    Store other = store.connect();
    auto text = other.get(key, Deadline::after(20s));
    text.replace(text.find(" 4000 "), 6, " 4999 ");
    other.set(key, text, Deadline::after(20s));
    const auto expected =
        "process group: the address of rank 0 in the store is not from a worker of this run: "
        "another client of the store has changed it";
    CHECK_THROWS_WITH_AS(meet(store, 1, kRunKey), expected, Error);
    CHECK_THROWS_WITH_AS(first.get(), expected, Error);
  }

  TEST_CASE("nodes meeting: a store client without the run's key cannot replace a rank") {
    TestStore store;
    auto first = std::async(std::launch::async, [&] { return meet(store, 0, kRunKey); });
    key_of_presence(store, 0);
    CHECK_THROWS_AS(meet(store, 1, {}, Deadline::after(100ms)), Error);
    const auto second = meet(store, 1, kRunKey);
    CHECK(first.get().key == second.key);
  }
}

}  // namespace nodes_meeting_test
