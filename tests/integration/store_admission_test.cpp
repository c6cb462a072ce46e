// A store that serves some addresses alone.
#include "tests/support/raw_client.hpp"
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

}  // namespace

TEST_SUITE("store admission") {
  TEST_CASE(
      "clients at other addresses are closed at once and told of, those at admitted ones stay") {
    std::atomic<bool> is_admitted = false;
    TestStore store({.admits = [&](const std::string& address) {
      return address == "127.0.0.1" && is_admitted;
    }});
    const RawClient stranger(store.endpoint());
    CHECK(stranger.is_closed_by_server());
    is_admitted = true;
    const RawClient friendly(store.endpoint());
    friendly.send(kNumberOfKeys);
    CHECK(friendly.receive(kNumberBytes).size() == kNumberBytes);
    is_admitted = false;  // asked when somebody comes
    friendly.send(kNumberOfKeys);
    CHECK(friendly.receive(kNumberBytes).size() == kNumberBytes);
    CHECK(RawClient(store.endpoint()).is_closed_by_server());
    const auto stats = store.stats();
    CHECK(stats.strangers == 2);
    CHECK(stats.connections == 1);
    REQUIRE(store.warnings().size() == 2);
    CHECK(store.warnings()[0].ends_with(
        ": refused a connection from 127.0.0.1, where no node of the run is"));
  }

  TEST_CASE("a store that listens for both families asks for IPv4 addresses as people write them") {
    if (::access("/proc/net/if_inet6", F_OK) != 0) return;
    std::atomic<bool> has_seen = false;
    TestStore store({.address = "::", .admits = [&](const std::string& address) {
                       has_seen = address == "127.0.0.1";
                       return true;
                     }});
    const RawClient client({.host = "127.0.0.1", .port = store.endpoint().port});
    client.send(kNumberOfKeys);
    CHECK(client.receive(kNumberBytes).size() == kNumberBytes);
    CHECK(has_seen);
  }
}

}  // namespace store_admission_test
