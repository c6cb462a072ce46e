// Long requests to the store's server, in turns with other clients.
#include "rendezvous/store/store_server.hpp"
#include "rendezvous/wire/request.hpp"
#include "tests/support/raw_client.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace store_turns_test {

namespace wire = ddprun::wire;
using ddprun::StoreServer;
using ddprun::test::RawClient;
using ddprun::test::store_greeting;
using ddprun::test::store_request;
using namespace std::chrono_literals;

TEST_SUITE("store turns") {
  TEST_CASE("store: other clients are served between the turns of long requests") {
    constexpr int kKeys = 3000;
    boost::asio::io_context io(1);
    StoreServer server(io.get_executor(), {});
    server.start();
    const RawClient greedy(server.endpoint());
    const RawClient modest(server.endpoint());
    std::string keys = store_greeting();
    for (int i = 0; i < kKeys; ++i) keys += store_request(wire::Set{std::to_string(i), ""});
    REQUIRE(greedy.send(keys));
    REQUIRE(modest.send(store_greeting()));
    while (server.stats().keys < kKeys) io.run_one_for(20s);
    std::string many;
    for (int i = 0; i < 900; ++i) many += store_request(wire::ListKeys{});
    REQUIRE(greedy.send(many));
    REQUIRE(modest.send(store_request(wire::Get{"7"})));
    while (modest.is_open_and_silent()) io.run_one_for(20s);
    server.stop();
    const std::size_t reply_bytes = kKeys * sizeof(std::uint64_t);  // and more
    CHECK(greedy.receive(900 * reply_bytes).size() < 10 * reply_bytes);
  }

  TEST_CASE("store: disconnecting during a wait for many keys does not delay other clients") {
    constexpr std::size_t kKeys = 40'000;
    boost::asio::io_context io(1);
    StoreServer server(io.get_executor(), {});
    server.start();
    const RawClient modest(server.endpoint());
    REQUIRE(modest.send(store_greeting()));
    wire::Wait wait;
    for (std::size_t i = 0; i < kKeys; ++i) wait.keys.push_back(std::to_string(i));
    {
      const RawClient leaving(server.endpoint());
      const std::string request = store_greeting() + store_request(wait);
      for (std::string_view rest = request; !rest.empty(); io.poll())
        rest.remove_prefix(leaving.send_some(rest));
      while (server.stats().waits < kKeys) io.run_one_for(20s);
    }
    while (server.stats().connections > 1) io.run_one_for(20s);
    CHECK(server.stats().waits > kKeys / 2);
    REQUIRE(modest.send(store_request(wire::Get{"absent"})));
    while (modest.is_open_and_silent()) io.run_one_for(20s);
    CHECK(server.stats().waits > 0);
    while (server.stats().waits > 0) io.run_one_for(20s);
    server.stop();
  }

  TEST_CASE("store: other clients are served while a WAIT of many keys begins and ends") {
    constexpr std::size_t kKeys = 100'000;
    boost::asio::io_context io(1);
    StoreServer server(io.get_executor(), {});
    server.start();
    const RawClient greedy(server.endpoint());
    const RawClient modest(server.endpoint());
    REQUIRE(modest.send(store_greeting()));
    wire::Wait wait;
    for (std::size_t i = 0; i < kKeys; ++i) wait.keys.push_back(std::to_string(i));
    const std::string request = store_greeting() + store_request(wait);
    for (std::string_view rest = request; !rest.empty(); io.poll())
      rest.remove_prefix(greedy.send_some(rest));
    const auto waits_when_served = [&] {
      REQUIRE(modest.send(store_request(wire::Get{"absent"})));
      while (modest.is_open_and_silent()) io.run_one_for(20s);
      modest.receive(sizeof(std::uint64_t));
      return server.stats().waits;
    };
    while (server.stats().waits == 0) io.run_one_for(20s);
    CHECK(waits_when_served() < kKeys / 2);
    while (server.stats().waits < kKeys) io.run_one_for(20s);
    REQUIRE(greedy.send(store_request(wire::CancelWait{})));
    while (server.stats().waits == kKeys) io.run_one_for(20s);
    CHECK(waits_when_served() > kKeys / 2);
    while (greedy.is_open_and_silent()) io.run_one_for(20s);
    CHECK(server.stats().waits == 0);
    server.stop();
  }
}

}  // namespace store_turns_test
