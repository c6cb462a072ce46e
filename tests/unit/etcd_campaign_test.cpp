// Elections that fail half way, for which an etcd must be in trouble.
#include "rendezvous/etcd/campaign.hpp"
#include "tests/support/scripted_etcd.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <exception>
#include <memory>
#include <string>

using namespace ddprun;
using namespace ddprun::etcd;
using ddprun::test::ScriptedEtcd;

TEST_SUITE("a campaign that fails half way") {
  TEST_CASE("gives back the office that it may have won without knowing") {
    boost::asio::io_context context;
    ScriptedEtcd etcd(context, {{"/v3/lease/grant", R"({"ID": "7", "TTL": "3"})"}});
    const auto client =
        std::make_shared<Client>(context.get_executor(), std::vector{etcd.endpoint()});
    CampaignResult result;
    boost::asio::co_spawn(
        context,
        campaign(client, {.endpoints = {etcd.endpoint()}, .local_addr = "127.0.0.1"},
                 {.node = "a", .settings = {.run_id = "run"}}, {}),
        [&](const std::exception_ptr& failure, CampaignResult given) {
          CHECK_FALSE(failure);
          result = std::move(given);
          etcd.close();
        });
    context.run();
    CHECK_FALSE(result.term);
    CHECK(result.problem.find("no room") != std::string::npos);
    CHECK(etcd.count("/v3/kv/txn") == 1);
    CHECK(etcd.count("/v3/lease/revoke") == 1);
  }
}
