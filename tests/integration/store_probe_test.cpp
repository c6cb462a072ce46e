// The store of a torchrun is recognised, and other servers are not.
#include "rendezvous/membership/store_probe.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/store/listener.hpp"
#include "tests/support/test_store.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <exception>
#include <optional>
#include <string>

namespace store_probe_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

bool result_of(boost::asio::awaitable<bool> asking) {
  boost::asio::io_context context(1);
  std::optional<bool> result;
  boost::asio::co_spawn(context, std::move(asking),
                        [&](const std::exception_ptr&, bool found) { result = found; });
  context.run();
  REQUIRE(result);
  return *result;
}

bool is_torchrun(const StoreEndpoint& endpoint, Deadline::Duration timeout = 20s) {
  return result_of(membership::has_torchrun(endpoint, "job", Deadline::after(timeout)));
}

}  // namespace

TEST_SUITE("store probe") {
  TEST_CASE("store probe: torchrun agents of any version are recognised by their keys") {
    for (const std::string key :
         {"torch.rendezvous.job", "job/torchelastic/role_info0", "job/torchelastic/role_info/0"}) {
      TestStore store;
      const auto deadline = Deadline::after(20s);
      auto client = Store::connect(store.endpoint(), deadline);
      client.set("torch.rendezvous.other", "x", deadline);
      CHECK_FALSE(is_torchrun(store.endpoint()));
      client.set(key, "x", deadline);
      CHECK(client.number_of_keys(deadline) == 2);  // both have arrived
      CHECK(is_torchrun(store.endpoint()));
    }
  }

  TEST_CASE("store probe: a silent or closed port is not reported like torchrun") {
    StoreEndpoint silent{.host = "127.0.0.1"};
    {
      const auto listener = open_listener(silent);
      const UniqueFd owner(listener.fd);
      silent.port = listener.port;
      CHECK_FALSE(is_torchrun(silent, 100ms));
    }
    CHECK_FALSE(is_torchrun(silent));
  }
}

}  // namespace store_probe_test
