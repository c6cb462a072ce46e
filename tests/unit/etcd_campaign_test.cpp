// Elections that fail halfway because of an etcd with errors.
#include "rendezvous/etcd/base64.hpp"
#include "rendezvous/etcd/campaign.hpp"
#include "tests/support/dialogues.hpp"
#include "tests/support/scripted_etcd.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace etcd_campaign_test {

using namespace ddprun;
using namespace ddprun::etcd;
using ddprun::test::ScriptedEtcd;

namespace {

/// Response of etcd to the client that has created the key of the run's coordinator.
std::string elected_with_lease(const std::string& lease) {
  const auto holder = holder_text("a", {"h", 1});
  return R"({"header": {"revision": "5"}, "succeeded": true, "responses": [{"response_range": )"
         R"({"kvs": [{"key": ")" +
         to_base64(RunKeys("/ddprun", "run").coordinator()) + R"(", "create_revision": "5", )" +
         R"("mod_revision": "5", "version": "1", "lease": ")" + lease + R"(", "value": ")" +
         to_base64(holder) + R"("}]}}]})";
}

std::shared_ptr<RunTrust> open_trust() {
  return std::make_shared<RunTrust>(nullptr, RunKeys("/ddprun", "run"), Log());
}

struct Outcome {
  std::string note;
  std::string log_text;
};

/// A candidate with this --local_addr.
Outcome succeed(const std::string& address, const security::Secret* secret) {
  boost::asio::io_context context;
  ScriptedEtcd etcd(context, {{"/v3/lease/grant", R"({"ID": "7", "TTL": "3"})"},
                              {"/v3/kv/txn", elected_with_lease("7")}});
  const auto client =
      std::make_shared<Client>(context.get_executor(), std::vector{etcd.endpoint()});
  Outcome outcome;
  const Log log = [&](LogLevel, std::string_view line) { outcome.log_text += line; };
  boost::asio::co_spawn(context,
                        campaign(client, {.endpoints = {etcd.endpoint()}, .local_addr = address},
                                 {.node = {"a", 1},
                                  .settings = {.run_id = "run"},
                                  .admission = {.secret = secret},
                                  .trust = open_trust()},
                                 log),
                        [&](const std::exception_ptr& failure, const CampaignResult& result) {
                          CHECK_FALSE(failure);
                          REQUIRE(result.term);
                          outcome.note = result.note;
                          result.term->end();
                          etcd.close();
                        });
  context.run();
  return outcome;
}

}  // namespace

TEST_SUITE("failed etcd campaign") {
  TEST_CASE("etcd campaign: a failed candidate resigns in case it won without a response") {
    boost::asio::io_context context;
    ScriptedEtcd etcd(context, {{"/v3/lease/grant", R"({"ID": "7", "TTL": "3"})"}});
    const auto client =
        std::make_shared<Client>(context.get_executor(), std::vector{etcd.endpoint()});
    CampaignResult result;
    boost::asio::co_spawn(
        context,
        campaign(client, {.endpoints = {etcd.endpoint()}, .local_addr = "127.0.0.1"},
                 {.node = {"a", 1}, .settings = {.run_id = "run"}, .trust = open_trust()}, {}),
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

TEST_SUITE("successful etcd campaign") {
  TEST_CASE("etcd campaign: an open coordinator that listens on all addresses causes a warning") {
    for (const std::string address : {"192.0.2.1", "127.0.0.1"}) {
      CAPTURE(address);
      const auto outcome = succeed(address, nullptr);
      // No machine has an address reserved for documentation.
      const bool is_warned =
          outcome.log_text.find("any machine that reaches one of its addresses") !=
          std::string::npos;
      CHECK(is_warned == (address == "192.0.2.1"));
    }
  }

  TEST_CASE("etcd campaign: the addresses of rendezvous and store are reported") {
    const auto secret = ddprun::test::secret_of('s');
    const auto open = succeed("127.0.0.1", nullptr).note;
    CHECK(open.starts_with("this node hosts the rendezvous and the store at 127.0.0.1:"));
    const auto closed = succeed("127.0.0.1", &secret).note;
    int rendezvous = 0;
    int store = 0;
    const auto* form =
        "this node hosts the rendezvous at 127.0.0.1:%d and the store at 127.0.0.1:%d";
    CHECK_MESSAGE(std::sscanf(closed.c_str(), form, &rendezvous, &store) == 2, closed);
    CHECK(rendezvous != store);
  }
}

}  // namespace etcd_campaign_test
