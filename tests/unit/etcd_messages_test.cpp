#include "rendezvous/base/json_nesting.hpp"
#include "rendezvous/etcd/base64.hpp"
#include "rendezvous/etcd/held_lease.hpp"
#include "rendezvous/etcd/messages.hpp"

#include <doctest/doctest.h>

#include <string>

namespace etcd_messages_test {

using namespace ddprun::etcd;
using namespace std::chrono_literals;

namespace {

/// Output of etcd 3.4.23.
constexpr const char* kFound =
    R"({"header":{"cluster_id":"324952591200643719","revision":"7"},"responses":[)"
    R"({"response_range":{"header":{"revision":"7"},"kvs":[{"key":"cnVuL2M=",)"
    R"("create_revision":"2","mod_revision":"2","version":"1","value":"aGVsbG8=",)"
    R"("lease":"2324035518008838919"}],"count":"1"}}]})";

template <typename T>
std::string problem_of(const Result<T>& result) {
  const auto* problem = std::get_if<Problem>(&result);
  return problem == nullptr ? std::string() : problem->text;
}

const char* const kNoAnswers[] = {"",
                                  "{",
                                  "[]",
                                  "null",
                                  "7",
                                  "{}",
                                  R"({"result":7})",
                                  R"({"header":7,"responses":[]})",
                                  R"({"header":{"revision":"x"},"ID":"y"})",
                                  R"({"ID":"1","TTL":"-1"})",
                                  R"({"ID":"1","TTL":"99999999999999999999"})"};

const char* const kBadKeys[] = {R"({"key":"cnVu*A=="})",
                                R"({"key":7})",
                                R"({"key":"cnVu","create_revision":"1x"})",
                                R"({"key":"cnVu","create_revision":{}})",
                                R"({"key":"cnVu","mod_revision":{}})",
                                R"(7)"};

}  // namespace

TEST_SUITE("etcd messages") {
  TEST_CASE("etcd messages: base64 round-trips every string and rejects other input") {
    CHECK(to_base64("") == "");
    CHECK(to_base64("f") == "Zg==");
    CHECK(to_base64("fo") == "Zm8=");
    CHECK(to_base64("foo") == "Zm9v");
    std::string bytes;
    for (int i = 0; i < 256; ++i) {
      bytes += static_cast<char>(i);
      CHECK(from_base64(to_base64(bytes)) == bytes);
    }
    for (const char* text : {"Zg=", "Zg", "Z===", "====", "Zh==", "Zg==Zg==", "Zm 8", "Zm9v\n"}) {
      CAPTURE(text);
      CHECK_FALSE(from_base64(text));
    }
  }

  TEST_CASE("etcd messages: a transaction is encoded with conditions and writes and reads") {
    const Transaction transaction{
        .conditions = {{"k", 0}, {"l", 9}}, .puts = {{"k", "v", 5}}, .read = prefix_range("run/")};
    CHECK(transaction_request(transaction) ==
          R"({"compare":[{"create_revision":"0","key":"aw==","result":"EQUAL","target":"CREATE"},)"
          R"({"create_revision":"9","key":"bA==","result":"EQUAL","target":"CREATE"}],)"
          R"("failure":[{"request_range":{"key":"cnVuLw==","range_end":"cnVuMA=="}}],)"
          R"("success":[{"request_put":{"key":"aw==","lease":"5","value":"dg=="}},)"
          R"({"request_range":{"key":"cnVuLw==","range_end":"cnVuMA=="}}]})");
  }

  TEST_CASE("etcd messages: a transaction can compare a value") {
    const Transaction transaction{.conditions = {{.key = "k", .modified = 7}}};
    CHECK(transaction_request(transaction)
              .find(R"({"key":"aw==","mod_revision":"7","result":"EQUAL","target":"MOD"})") !=
          std::string::npos);
  }

  TEST_CASE("etcd messages: keys are decoded with value and lease and revision") {
    const auto parsed = parse_transaction(kFound);
    const auto* answer = std::get_if<TransactionAnswer>(&parsed);
    REQUIRE(answer != nullptr);
    CHECK_FALSE(answer->has_succeeded);
    CHECK(answer->revision == 7);
    const KeyValue expected{.key = "run/c",
                            .value = "hello",
                            .created = 2,
                            .modified = 2,
                            .lease = 2324035518008838919};
    CHECK(answer->keys == std::vector<KeyValue>{expected});
  }

  TEST_CASE("etcd messages: responses without keys and with plain JSON numbers are accepted") {
    const auto parsed = parse_transaction(
        R"({"header":{"revision":3},"succeeded":true,"responses":[{"response_put":{}},{}]})");
    CHECK(std::get<TransactionAnswer>(parsed) ==
          TransactionAnswer{.has_succeeded = true, .revision = 3});
  }

  TEST_CASE("etcd messages: an expired lease has 0 s left") {
    CHECK(std::get<Lease>(parse_lease(R"({"ID":"12","TTL":"3"})")) == Lease{12, 3s});
    CHECK(std::get<std::chrono::seconds>(parse_renewal(R"({"result":{"ID":"12","TTL":"3"}})")) ==
          3s);
    CHECK(std::get<std::chrono::seconds>(parse_renewal(R"({"result":{"ID":"12"}})")) == 0s);
    CHECK(lease_request(3s) == R"({"TTL":"3"})");
    CHECK(renewal_request(12) == R"({"ID":"12"})");
  }

  TEST_CASE("etcd messages: a watch's creation does not count as a change") {
    CHECK_FALSE(std::get<bool>(parse_watch(R"({"result":{"header":{},"created":true}})")));
    CHECK(std::get<bool>(parse_watch(R"({"result":{"events":[{"type":"DELETE"}]}})")));
    CHECK(std::get<bool>(parse_watch(R"({"result":{"canceled":true,"compact_revision":"9"}})")));
    CHECK(watch_request({"k"}, 8) == R"({"create_request":{"key":"aw==","start_revision":"8"}})");
  }

  TEST_CASE("etcd messages: an invalid response is quoted in the problem") {
    for (const auto* text : kNoAnswers) {
      CAPTURE(text);
      CHECK(
          problem_of(parse_lease(text)).rfind("etcd sent a response that ddprun cannot parse", 0) ==
          0);
      CHECK_FALSE(problem_of(parse_transaction(text)).empty());
      CHECK_FALSE(problem_of(parse_renewal(text)).empty());
      CHECK_FALSE(problem_of(parse_watch(text)).empty());
    }
    for (const std::string key : kBadKeys) {
      CAPTURE(key);
      CHECK_FALSE(problem_of(parse_transaction(
                                 R"({"header":{"revision":"7"},"responses":[{"response_range":)"
                                 R"({"kvs":[)" +
                                 key + "]}}]}"))
                      .empty());
    }
    CHECK(problem_of(parse_lease(std::string(100'000, '\x1b'))).size() < 1000);
  }

  TEST_CASE("etcd messages: a response that is nested too deeply is invalid") {
    const auto lease = [](std::size_t depth) {
      return R"({"ID":"1","TTL":"3","more":)" + std::string(depth - 1, '[') +
             std::string(depth - 1, ']') + "}";
    };
    CHECK(problem_of(parse_lease(lease(ddprun::kJsonNestingMax))).empty());
    CHECK_FALSE(problem_of(parse_lease(lease(ddprun::kJsonNestingMax + 1))).empty());
  }

  TEST_CASE("etcd messages: an error has etcd's message or the HTTP status") {
    CHECK(error_in(400, R"({"error":"a","message":"bad key","code":3})") == "bad key");
    CHECK(error_in(404, "Not Found").find("etcd 3.4 or newer") != std::string::npos);
    CHECK(error_in(503, "") == "HTTP status 503");
  }
}

TEST_SUITE("held lease") {
  TEST_CASE("etcd lease: a lease ends a sixth of its time early and counts from the last request") {
    const HeldLease::Time begin(std::chrono::hours(1));
    HeldLease lease({.id = 1, .time = 3s}, begin);
    CHECK(lease.next_renewal() == begin + 500ms);
    CHECK(lease.is_held(begin + 2499ms));
    CHECK_FALSE(lease.is_held(begin + 2500ms));
    lease.renew(begin + 1s, 3s);
    CHECK(lease.end() == begin + 3500ms);
    lease.renew(begin + 500ms, 3s);  // late response
    CHECK(lease.end() == begin + 3500ms);
  }
}

}  // namespace etcd_messages_test
