// Admission of clients by the store: by user on this machine, by address elsewhere.
#include "tests/support/as_user.hpp"
#include "tests/support/raw_client.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/test_store.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <unistd.h>

namespace store_admission_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// In the old dialect, which needs no greeting.
constexpr std::string_view kNumberOfKeys("\x06", 1);
constexpr std::size_t kNumberBytes = 8;

bool is_served(const RawClient& client) {
  client.send(kNumberOfKeys);
  return client.receive(kNumberBytes).size() == kNumberBytes;
}

RawClient connect_as(uid_t user, const StoreEndpoint& endpoint) {
  const AsUser other(user);
  return RawClient(endpoint);
}

}  // namespace

TEST_SUITE("store admission") {
  TEST_CASE("store admission: other users of this machine are rejected and named") {
    if (!can_be_other_user()) return skip("only root can make the sockets of another user");
    TestStore store;
    const RawClient own(store.endpoint());
    CHECK(is_served(own));
    const auto other = connect_as(kOtherUser, store.endpoint());
    other.send(kNumberOfKeys);
    CHECK(other.is_closed_by_server());
    CHECK(is_served(own));
    CHECK(store.stats().unauthorized == 1);
    REQUIRE(store.warnings().size() == 1);
    CHECK(
        store.warnings()[0].ends_with(": refused a connection of user 54321; no worker of this run "
                                      "runs as that user; --rdzv_conf=check_users=0 "
                                      "admits all users"));
  }

  TEST_CASE("store admission: the user is checked even for the other protocol of a shared port") {
    if (!can_be_other_user()) return skip("only root can make the sockets of another user");
    std::atomic<int> handed_over = 0;
    TestStore store(
        StoreServerOptions{.other_greeting = "agent", .hand_over = [&](int fd, std::string_view) {
                             ++handed_over;
                             ::close(fd);
                           }});
    const RawClient own(store.endpoint());
    own.send("agent");
    CHECK(own.is_closed_by_server());
    const auto other = connect_as(kOtherUser, store.endpoint());
    other.send("agent");
    CHECK(other.is_closed_by_server());
    CHECK(handed_over == 1);
  }

  TEST_CASE("store admission: a client that left before accept causes no warning") {
    std::atomic<bool> may_go_on = false;
    TestStore store({.admits_user = [&](uid_t user) {
      may_go_on.wait(false);
      return is_root_or_own_user(user);
    }});
    const RawClient first(store.endpoint());
    {
      const RawClient gone(store.endpoint());
      gone.send(kNumberOfKeys);
    }
    may_go_on = true;
    may_go_on.notify_all();
    CHECK(is_served(RawClient(store.endpoint())));
    CHECK(store.warnings().empty());
    CHECK(store.stats().unauthorized == 0);
  }

  TEST_CASE("store admission: admitted users are served even at other addresses") {
    if (!can_be_other_user()) return skip("only root can make the sockets of another user");
    TestStore store({.admits_user = [](uid_t user) { return user == kOtherUser; },
                     .admits_address = [](const std::string&) { return false; }});
    CHECK(is_served(connect_as(kOtherUser, store.endpoint())));
    CHECK(connect_as(kOtherUser + 1, store.endpoint()).is_closed_by_server());
  }

  TEST_CASE("store admission: users are not checked without admits_user") {
    if (!can_be_other_user()) return skip("only root can make the sockets of another user");
    TestStore store({.admits_user = {}});
    CHECK(is_served(connect_as(kOtherUser, store.endpoint())));
  }

  TEST_CASE("store admission: only store clients are checked for their address") {
    TestStore store({.other_greeting = "agent",
                     .hand_over = [](int fd, std::string_view) { ::close(fd); },
                     .admits_user = {},
                     .admits_address = [](const std::string&) { return false; }});
    const RawClient agent(store.endpoint());
    agent.send("agent");
    CHECK(agent.is_closed_by_server());
    CHECK(store.stats().unauthorized == 0);
    const RawClient client(store.endpoint());
    client.send(kNumberOfKeys);
    CHECK(client.is_closed_by_server());
    CHECK(store.stats().unauthorized == 1);
  }

  TEST_CASE("store admission: clients at addresses that are not admitted are disconnected") {
    std::atomic<bool> is_admitted = false;
    TestStore store({.admits_user = {}, .admits_address = [&](const std::string& address) {
                       return address == "127.0.0.1" && is_admitted;
                     }});
    const RawClient stranger(store.endpoint());
    CHECK(stranger.is_closed_by_server());
    is_admitted = true;
    const RawClient friendly(store.endpoint());
    CHECK(is_served(friendly));
    is_admitted = false;  // evaluated for each new client
    CHECK(is_served(friendly));
    CHECK(RawClient(store.endpoint()).is_closed_by_server());
    const auto stats = store.stats();
    CHECK(stats.unauthorized == 2);
    CHECK(stats.connections == 1);
    REQUIRE(store.warnings().size() == 2);
    CHECK(store.warnings()[0].ends_with(
        ": refused a connection from 127.0.0.1, which is not the "
        "address of a node of this run; if torchrun runs there, start "
        "that node with ddprun"));
  }

  TEST_CASE("store admission: a dual-stack listener checks IPv4 addresses in IPv4 notation") {
    if (::access("/proc/net/if_inet6", F_OK) != 0) return;
    std::atomic<bool> has_seen = false;
    TestStore store(
        {.address = "::", .admits_user = {}, .admits_address = [&](const std::string& address) {
           has_seen = address == "127.0.0.1";
           return true;
         }});
    const RawClient client({.host = "127.0.0.1", .port = store.endpoint().port});
    CHECK(is_served(client));
    CHECK(has_seen);
  }
}

}  // namespace store_admission_test
