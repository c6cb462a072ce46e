// A store of PyTorch's protocol is recognised, and what is none is not taken for one.
#include "rendezvous/membership/store_probe.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/store/listener.hpp"
#include "tests/support/test_store.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <optional>

namespace store_probe_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

bool is_recognised(const StoreEndpoint& endpoint, Deadline::Duration timeout = 20s) {
  boost::asio::io_context context(1);
  std::optional<bool> result;
  const auto run = [&]() -> boost::asio::awaitable<void> {
    auto asking = membership::answers_as_store(endpoint, Deadline::after(timeout));
    result = co_await std::move(asking);
  };
  boost::asio::co_spawn(context, run, boost::asio::detached);
  context.run();
  REQUIRE(result);
  return *result;
}

}  // namespace

TEST_SUITE("store probe") {
  TEST_CASE("a store is recognised, and nothing in it changes") {
    TestStore store;
    CHECK(is_recognised(store.endpoint()));
    CHECK(store.stats().keys == 0);
    CHECK(store.warnings().empty());
  }

  TEST_CASE("a port at which nothing answers, or nothing listens, is no store") {
    StoreEndpoint silent{.host = "127.0.0.1"};
    {
      const auto listener = open_listener(silent);
      const UniqueFd owner(listener.fd);
      silent.port = listener.port;
      CHECK_FALSE(is_recognised(silent, 100ms));
    }
    CHECK_FALSE(is_recognised(silent));
  }
}

}  // namespace store_probe_test
