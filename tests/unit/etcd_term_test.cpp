// A term with an etcd that renews leases and rejects all else.
#include "rendezvous/etcd/term.hpp"
#include "tests/support/scripted_etcd.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace etcd_term_test {

using namespace ddprun;
using namespace ddprun::etcd;
using namespace std::chrono_literals;

namespace {

struct Begun {
  using Answers = std::map<std::string, std::string>;

  /// A node that got its lease this long ago. etcd also responds as given by `answers`.
  explicit Begun(std::chrono::milliseconds since, Answers answers = {})
      : etcd(context, with_renewals(std::move(answers))) {
    const auto sent = Deadline::Clock::now() - since;
    const Log log = [this](LogLevel, std::string_view line) { log_text += line; };
    const TermFacts facts{.keys = RunKeys("/ddprun", "run"),
                          .node = {"a", 1},
                          .created = 5,
                          .leadership = HeldLease({.id = 7, .time = 2s}, sent),
                          .record = HeldLease({.id = 8, .time = 60s}, sent)};
    auto server = std::make_unique<membership::CoordinatorServer>(
        context.get_executor(), StoreEndpoint{"127.0.0.1", 0}, membership::Admission{}, 0, log);
    const auto client =
        std::make_shared<Client>(context.get_executor(), std::vector{etcd.endpoint()});
    const auto on_renewal = [this](HeldLease::Time end) { term_ends.push_back(end); };
    term = std::make_shared<Term>(client, facts, std::move(server), on_renewal, log);
    boost::asio::post(context, [this] { term->begin({.run_id = "run"}, std::nullopt); });
  }

  static Answers with_renewals(Answers answers) {
    answers.emplace("/v3/lease/keepalive", R"({"result": {"TTL": "2"}})");
    return answers;
  }

  /// After begin(), before a response of etcd.
  void step_down() {
    boost::asio::co_spawn(context, Term::give_back(term, false), boost::asio::detached);
  }

  void run_until_ended() {
    while (!term->has_ended() && context.run_one_for(20s) > 0) {
    }
    etcd.close();
    context.run();
  }

  std::string log_text;
  std::vector<HeldLease::Time> term_ends;  ///< as reported
  boost::asio::io_context context;
  test::ScriptedEtcd etcd;
  std::shared_ptr<Term> term;
};

}  // namespace

TEST_SUITE("etcd term") {
  TEST_CASE("etcd term: a term whose lease has already expired ends at once") {
    Begun begun(10s);
    begun.run_until_ended();
    CHECK(begun.term->has_ended());
    CHECK(begun.log_text.find("no longer hosts the rendezvous") != std::string::npos);
  }

  TEST_CASE("etcd term: a renewal acknowledged after the end of the term is ignored") {
    Begun begun(0s);
    while (begun.etcd.count("/v3/lease/keepalive") == 0 && begun.context.run_one_for(20s) > 0) {
    }
    REQUIRE_FALSE(begun.term->has_ended());
    REQUIRE(begun.term_ends.empty());
    begun.term->end();
    begun.run_until_ended();
    CHECK(begun.term_ends.empty());
  }

  TEST_CASE("etcd term: a term ends if the record cannot be written") {
    Begun begun(0s);
    begun.run_until_ended();
    CHECK(begun.term->has_ended());
    CHECK(begun.etcd.count("/v3/lease/keepalive") > 0);
    REQUIRE_FALSE(begun.term_ends.empty());
    CHECK(begun.term_ends.back() == begun.term->term_end());
    CHECK(begun.log_text.find("the run's record cannot be written") != std::string::npos);
    CHECK(begun.log_text.find("no room") != std::string::npos);
  }

  TEST_CASE("etcd term: a refused write is judged by the coordinator and the record") {
    using End = RecordWrite::End;
    const RunKeys keys("/ddprun", "run");
    const KeyValue own{.key = keys.coordinator(), .created = 5};
    const KeyValue other{.key = keys.coordinator(), .created = 6};
    const KeyValue same{.key = keys.record(), .value = "text", .modified = 8};
    const KeyValue older{.key = keys.record(), .value = "older", .modified = 7};
    struct Row {
      TransactionAnswer answer;
      RecordWrite write;
    };
    const Row table[] = {
        {{.has_succeeded = true, .revision = 9}, {End::written, 9}},
        {{.revision = 9, .keys = {own, same}}, {End::written, 8}},
        {{.revision = 9, .keys = {own, older}}, {End::changed, 7}},
        {{.revision = 9, .keys = {own}}, {End::changed, 0}},
        {{.revision = 9, .keys = {other, same}}, {End::not_elected, 8}},
        {{.revision = 9, .keys = {same}}, {End::not_elected, 8}},
    };
    for (const auto& row : table) CHECK(judge_write(row.answer, keys, 5, "text") == row.write);
  }

  TEST_CASE("etcd term: stepping down does not rewrite the record during another write") {
    Begun begun(0s, {{"/v3/kv/txn", R"({"succeeded": true})"}});
    begun.step_down();
    begun.run_until_ended();
    CHECK(begun.etcd.count("/v3/kv/txn") == 1);  // by the coordinator, without a rewrite
  }
}

}  // namespace etcd_term_test
