// Work of requests, and the split of long ones.
#include "rendezvous/store/request_work.hpp"
#include "rendezvous/store/store_table.hpp"
#include "tests/support/store_printers.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace store_work_test {

using namespace ddprun;

namespace {

constexpr ClientId kAnn = 1, kBob = 2, kEve = 3;

StoreOutcome perform(StoreTable& table, wire::Request request) {
  return table.apply(kAnn, std::move(request), wire::Dialect::modern);
}

std::size_t work_of(const StoreTable& table, const wire::Request& request,
                    wire::Dialect dialect = wire::Dialect::modern) {
  return request_work(table, kAnn, request, dialect, 10'000);
}

/// Performs all but the last part of a request in parts of two keys; returns their number.
std::size_t parts(StoreTable& table, wire::Request& request) {
  std::size_t count = 0;
  while (table.apply_part(kAnn, request, wire::Dialect::modern, 2)) ++count;
  return count;
}

}  // namespace

TEST_SUITE("store work") {
  TEST_CASE("store work: request_work() grows with keys and values and notified clients") {
    StoreTable table({});
    const std::string large(100 * 1024, 'x');
    perform(table, wire::Set{"/large", large});
    perform(table, wire::Set{"/watched", "x"});
    for (const ClientId client : {kAnn, kBob, kEve})
      table.apply(client, wire::WatchKey{"/watched"}, wire::Dialect::legacy);
    table.apply(kEve, wire::Wait{{"/waited"}}, wire::Dialect::modern);
    constexpr std::size_t kWaiting = 16;             // a wake-up
    constexpr std::size_t kWatching = 3 * (16 + 2);  // a notification with both values
    struct Row {
      wire::Request request;
      std::size_t work;
    };
    const std::vector<Row> rows = {
        {wire::Ping{1}, 1},
        {wire::Get{"/absent"}, 3},
        {wire::Get{"/large"}, 103},
        {wire::Set{"/absent", large}, 103},
        {wire::Set{"/waited", ""}, 3 + kWaiting},
        {wire::Set{"/watched", ""}, 3 + kWatching},
        {wire::Set{"/watched", large}, 103 + kWatching + 300},
        {wire::Add{"/watched", 1}, 3 + kWatching},
        {wire::CompareSet{"/absent", "", large}, 103},
        {wire::Append{"/absent", large}, 103},
        {wire::Check{{"/a", "/b", "/c"}}, 4},
        {wire::Wait{std::vector<std::string>(1000, "/a")}, 1001},
        {wire::MultiGet{{"/watched", "/large"}}, 103},
        {wire::MultiSet{{{"/a", large}, {"/watched", ""}}}, 105 + kWatching},
        {wire::ListKeys{}, 3},
    };
    for (const auto& row : rows) {
      CAPTURE(wire::operation_name(row.request));
      CHECK(work_of(table, row.request) == row.work);
    }
    perform(table, wire::QueuePush{"/queue", large});
    CHECK(work_of(table, wire::QueuePop{"/queue"}) == 103);
  }

  TEST_CASE("store work: request_work() counts the keys of a wait that the request ends") {
    StoreTable table({});
    std::vector<std::string> keys;
    keys.reserve(100);
    for (int i = 0; i < 100; ++i) keys.push_back(std::to_string(i));
    perform(table, wire::Wait{keys});
    CHECK(work_of(table, wire::CancelWait{}) == 101);
    CHECK(work_of(table, wire::Get{"/a"}) == 3);
    CHECK(work_of(table, wire::Get{"/a"}, wire::Dialect::legacy) == 103);
    perform(table, wire::CancelWait{});
    CHECK(work_of(table, wire::CancelWait{}) == 1);
  }

  TEST_CASE("StoreTable::drop() removes at most the given number of keys") {
    StoreTable table({});
    perform(table, wire::Wait{{"/a", "/b", "/c"}});
    for (const std::string key : {"/d", "/e"}) perform(table, wire::WatchKey{key});
    std::vector<std::size_t> left;
    while (table.has_keys(kAnn)) {
      table.drop(kAnn, 2);
      left.push_back(table.number_of_waits());
    }
    CHECK(left == std::vector<std::size_t>{3, 1, 0});
    CHECK(table.bytes() == 0);
  }

  TEST_CASE("StoreTable: a client being dropped is not woken but others are") {
    StoreTable table({});
    perform(table, wire::Wait{{"/a", "/b", "/c"}});
    table.apply(kBob, wire::Wait{{"/a"}}, wire::Dialect::modern);
    table.drop(kAnn, 1);
    const auto set = [&](const char* key) {
      return table.apply(kEve, wire::Set{key, ""}, wire::Dialect::modern).replies;
    };
    CHECK(set("/a") == std::vector<Delivery>{{kBob, wire::Answer::ready}});
    CHECK(set("/b").empty());
    CHECK(set("/c").empty());
    table.drop(kAnn, 1);
    table.drop(kAnn, 1);
    CHECK_FALSE(table.has_keys(kAnn));
    CHECK(table.number_of_waits() == 0);
  }

  TEST_CASE("StoreTable::apply_part() tests the keys of a CHECK until one is absent") {
    StoreTable table({});
    for (const std::string key : {"/a", "/b", "/c", "/d", "/e"}) perform(table, wire::Set{key, ""});
    wire::Request all = wire::Check{{"/a", "/b", "/c", "/d", "/e"}};
    CHECK(parts(table, all) == 2);
    CHECK(all == wire::Request(wire::Check{{"/a"}}));
    CHECK(perform(table, all).replies == std::vector<Delivery>{{kAnn, wire::Answer::ready}});
    wire::Request some = wire::Check{{"/a", "/b", "/absent", "/d", "/e"}};
    CHECK(parts(table, some) == 1);
    CHECK(perform(table, some).replies == std::vector<Delivery>{{kAnn, wire::Answer::not_ready}});
  }

  TEST_CASE("StoreTable: a WAIT in parts ends once all of its keys exist") {
    for (const auto dialect : {wire::Dialect::modern, wire::Dialect::legacy}) {
      StoreTable table({});
      const auto set = [&](const char* key) {
        return table.apply(kEve, wire::Set{key, ""}, wire::Dialect::modern).replies;
      };
      set("/e");
      wire::Request wait = wire::Wait{{"/a", "/b", "/c", "/d", "/e"}};
      CHECK(table.apply_part(kAnn, wait, dialect, 2));
      CHECK(table.number_of_waits() == 1);
      CHECK(set("/d").empty());
      CHECK(table.apply_part(kAnn, wait, dialect, 2));
      CHECK_FALSE(table.apply_part(kAnn, wait, dialect, 2));
      CHECK(table.apply(kAnn, wait, dialect) == StoreOutcome{});
      CHECK(table.number_of_waits() == 3);
      for (const char* key : {"/c", "/a"}) CHECK(set(key).empty());
      CHECK(set("/b") == std::vector<Delivery>{{kAnn, wire::Answer::ready}});
      CHECK_FALSE(table.has_keys(kAnn));
    }
  }

  TEST_CASE("StoreTable: the last part of a WAIT gets the reply if all keys exist") {
    StoreTable table({});
    wire::Request wait = wire::Wait{{"/a", "/b", "/c", "/d"}};
    CHECK(parts(table, wait) == 1);
    for (const std::string key : {"/a", "/b", "/c", "/d"})
      table.apply(kEve, wire::Set{key, ""}, wire::Dialect::modern);
    CHECK(perform(table, wait).replies == std::vector<Delivery>{{kAnn, wire::Answer::ready}});
    CHECK_FALSE(table.has_keys(kAnn));
  }

  TEST_CASE("StoreTable: a client is not woken once a part of its wait has been cancelled") {
    StoreTable table({});
    perform(table, wire::Wait{{"/a", "/b", "/c", "/d", "/e"}});
    wire::Request cancel = wire::CancelWait{};
    const auto set = [&](const char* key) {
      return table.apply(kEve, wire::Set{key, ""}, wire::Dialect::modern).replies;
    };
    for (const char* key : {"/b", "/c", "/d", "/e"}) CHECK(set(key).empty());
    CHECK(table.apply_part(kAnn, cancel, wire::Dialect::modern, 4));
    CHECK(table.number_of_waits() == 1);
    CHECK(set("/a").empty());
    CHECK(table.apply_part(kAnn, cancel, wire::Dialect::modern, 4));
    CHECK_FALSE(table.apply_part(kAnn, cancel, wire::Dialect::modern, 4));
    CHECK(perform(table, cancel).replies ==
          std::vector<Delivery>{{kAnn, wire::Answer::wait_cancelled}});
    CHECK(table.number_of_waits() == 0);
  }

  TEST_CASE("StoreTable: a legacy client's WAIT in parts replaces only its pending wait") {
    using Keys = std::vector<std::string>;
    for (const auto& pending : {Keys{"/old"}, Keys{"/old", "/old2", "/old3"}}) {
      StoreTable table({});
      const auto set = [&](const char* key) {
        return table.apply(kEve, wire::Set{key, ""}, wire::Dialect::modern).replies;
      };
      table.apply(kAnn, wire::Wait{pending}, wire::Dialect::legacy);
      wire::Request wait = wire::Wait{{"/a", "/b", "/c", "/d", "/e"}};
      while (table.apply_part(kAnn, wait, wire::Dialect::legacy, 2)) continue;
      CHECK(table.apply(kAnn, wait, wire::Dialect::legacy) == StoreOutcome{});
      CHECK(table.number_of_waits() == 5);
      for (const char* key : {"/old", "/d", "/e", "/a", "/b"}) CHECK(set(key).empty());
      CHECK(set("/c") == std::vector<Delivery>{{kAnn, wire::Answer::ready}});
    }
  }

  TEST_CASE("StoreTable: a WAIT in parts has the same limit as a whole one") {
    StoreTable table({.waits_max = 3});
    wire::Request wait = wire::Wait{{"/a", "/b", "/c", "/d", "/e"}};
    CHECK(parts(table, wait) == 1);
    CHECK_FALSE(perform(table, wait).refusal.empty());
    table.drop(kAnn);
    CHECK(table.number_of_waits() == 0);
    perform(table, wire::Wait{{"/a"}});
    wait = wire::Wait{{"/b", "/c", "/d"}};
    CHECK(parts(table, wait) == 0);
    CHECK_FALSE(perform(table, wait).refusal.empty());
  }

  TEST_CASE("store work: request_work() stops counting beyond the limit") {
    StoreTable table({});
    const wire::Check check{std::vector<std::string>(1000, "/a")};
    CHECK(request_work(table, kAnn, check, wire::Dialect::modern, 10) == 12);
  }

  TEST_CASE("store work: the parts of a long MULTI_GET yield the complete reply") {
    StoreTable table({});
    const std::string large(100 * 1024, 'x');
    for (const std::string key : {"/a", "/b", "/c"}) perform(table, wire::Set{key, large + key});
    const std::vector<std::string> keys = {"/a", "/absent", "/b", "/c"};
    wire::Request request = wire::MultiGet{keys};
    CHECK_FALSE(split_request(table, request, 1000));
    CHECK(request == wire::Request(wire::MultiGet{keys}));
    std::vector<std::string> values;
    for (std::optional<wire::Request> next = request; next;) {
      auto first = *next;
      next = split_request(table, first, 100);
      const auto replies = perform(table, first).replies;
      const auto& part = std::get<wire::Values>(replies.at(0).reply).values;
      CHECK(part.size() <= 2);
      values.insert(values.end(), part.begin(), part.end());
    }
    CHECK(values == std::vector<std::string>{large + "/a", "", large + "/b", large + "/c"});
    request = wire::ListKeys{};
    CHECK_FALSE(split_request(table, request, 1));
  }

  TEST_CASE("store work: the parts of a long MULTI_SET store all pairs") {
    StoreTable table({});
    std::vector<std::pair<std::string, std::string>> pairs;
    pairs.reserve(100);
    for (int i = 0; i < 100; ++i) pairs.emplace_back(std::to_string(i), "value");
    wire::Request request = wire::MultiSet{pairs};
    std::size_t parts = 0;
    for (std::optional<wire::Request> next = request; next; ++parts) {
      auto first = *next;
      next = split_request(table, first, 20);
      perform(table, first);
    }
    CHECK(parts == 10);
    CHECK(table.number_of_keys() == pairs.size());
  }
}

}  // namespace store_work_test
