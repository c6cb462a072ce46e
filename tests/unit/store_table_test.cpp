#include "rendezvous/store/store_table.hpp"

#include "rendezvous/wire/limits.hpp"
#include "tests/support/store_printers.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace store_table_test {

namespace wire = ddprun::wire;
using ddprun::ClientId;
using ddprun::Delivery;
using ddprun::StoreLimits;
using ddprun::StoreOutcome;
using ddprun::StoreTable;
using wire::Answer;

namespace {

constexpr ClientId kAnn = 1;
constexpr ClientId kBob = 2;
constexpr ClientId kEve = 3;

/// A table with a shorter way to send requests.
struct Table : StoreTable {
  explicit Table(const StoreLimits& limits = {}) : StoreTable(limits) {}

  StoreOutcome send(ClientId client, wire::Request request) {
    return apply(client, std::move(request), wire::Dialect::modern);
  }
  StoreOutcome send_legacy(ClientId client, wire::Request request) {
    return apply(client, std::move(request), wire::Dialect::legacy);
  }
  std::string value(const std::string& key) {
    return std::get<wire::Value>(send(kAnn, wire::Get{key}).replies.at(0).reply).value;
  }
};

StoreOutcome nothing() {
  return {};
}

/// One reply to one client.
StoreOutcome to(ClientId client, wire::Reply reply) {
  return {.replies = {{client, std::move(reply)}}, .refusal = {}};
}

/// The end of a wait, for each client in this order.
StoreOutcome wakes(const std::vector<ClientId>& clients) {
  StoreOutcome outcome;
  for (const ClientId client : clients) outcome.replies.push_back({client, Answer::ready});
  return outcome;
}

bool is_refused(const StoreOutcome& outcome) {
  return outcome.replies.empty() && !outcome.refusal.empty();
}

}  // namespace

TEST_SUITE("store table") {
  TEST_CASE("store table: a value that was set can be read and an absent value is empty") {
    Table table;
    CHECK(table.send(kAnn, wire::Set{"/k", "v"}) == nothing());
    CHECK(table.send(kBob, wire::Get{"/k"}) == to(kBob, wire::Value{"v"}));
    CHECK(table.send(kBob, wire::Get{"/none"}) == to(kBob, wire::Value{""}));
    CHECK(table.send(kBob, wire::MultiGet{{"/k", "/none"}}) == to(kBob, wire::Values{{"v", ""}}));
    CHECK(table.send(kBob, wire::NumberOfKeys{}) == to(kBob, wire::Number{1}));
    CHECK(table.send(kBob, wire::ListKeys{}) ==
          to(kBob, wire::Keys{std::string("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k", 18)}));
    CHECK(table.send(kBob, wire::DeleteKey{"/k"}) == to(kBob, wire::Number{1}));
    CHECK(table.send(kBob, wire::DeleteKey{"/k"}) == to(kBob, wire::Number{0}));
    CHECK(table.send(kBob, wire::Ping{7}) == to(kBob, wire::Nonce{7}));
    CHECK(table.bytes() == 0);
  }

  TEST_CASE("store table: ADD reads a value like strtoll and stores decimal text") {
    struct Row {
      const char* text;
      std::int64_t delta;
      std::int64_t sum;
    };
    for (const Row& row :
         {Row{"5", 1, 6}, Row{"12abc", 1, 13}, Row{"  12", 1, 13}, Row{"\t\n-3", 1, -2},
          Row{"+4", -5, -1}, Row{"0x10", 1, 1}, Row{"9223372036854775807", 1, INT64_MIN},
          Row{"-9223372036854775808", -1, INT64_MAX}}) {
      CAPTURE(row.text);
      Table table;
      table.send(kAnn, wire::Set{"/n", row.text});
      CHECK(table.send(kAnn, wire::Add{"/n", row.delta}) == to(kAnn, wire::Number{row.sum}));
      CHECK(table.value("/n") == std::to_string(row.sum));
    }
    Table table;
    CHECK(table.send(kAnn, wire::Add{"/new", -2}) == to(kAnn, wire::Number{-2}));
  }

  TEST_CASE("store table: ADD to a non-number closes the connection and changes nothing") {
    for (const char* text : {"", " ", "abc", "-", "+", "+-5", "++5", "9223372036854775808",
                             "-9223372036854775809", "99999999999999999999x"}) {
      CAPTURE(text);
      Table table;
      table.send(kAnn, wire::Set{"/n", text});
      CHECK(is_refused(table.send(kAnn, wire::Add{"/n", 1})));
      CHECK(is_refused(table.send(kAnn, wire::Barrier{"/n", 2})));
      CHECK(table.value("/n") == text);
    }
  }

  TEST_CASE("store table: COMPARE_SET follows the four rules of PyTorch") {
    Table table;
    CHECK(table.send(kAnn, wire::CompareSet{"/k", "x", "d"}) == to(kAnn, wire::Value{"x"}));
    CHECK(table.number_of_keys() == 0);
    CHECK(table.send(kAnn, wire::CompareSet{"/k", "", "d"}) == to(kAnn, wire::Value{"d"}));
    CHECK(table.send(kAnn, wire::CompareSet{"/k", "x", "e"}) == to(kAnn, wire::Value{"d"}));
    CHECK(table.send(kAnn, wire::CompareSet{"/k", "d", "e"}) == to(kAnn, wire::Value{"e"}));
    CHECK(table.value("/k") == "e");
  }

  TEST_CASE("store table: COMPARE_SET wakes waiting clients only if it creates the key") {
    Table table;
    CHECK(table.send(kBob, wire::Wait{{"/k"}}) == nothing());
    CHECK(table.send(kAnn, wire::CompareSet{"/k", "x", "d"}) == to(kAnn, wire::Value{"x"}));
    const auto created = table.send(kAnn, wire::CompareSet{"/k", "", "d"});
    CHECK(created.replies ==
          std::vector<Delivery>{{kBob, Answer::ready}, {kAnn, wire::Value{"d"}}});
  }

  TEST_CASE("store table: CHECK and WAIT of existing keys or no keys are answered at once") {
    Table table;
    table.send(kAnn, wire::Set{"/empty", ""});
    CHECK(table.send(kAnn, wire::Check{{}}) == to(kAnn, Answer::ready));
    CHECK(table.send(kAnn, wire::Wait{{}}) == to(kAnn, Answer::ready));
    CHECK(table.send(kAnn, wire::Wait{{"/empty"}}) == to(kAnn, Answer::ready));
    CHECK(table.send(kAnn, wire::Check{{"/empty", "/none"}}) == to(kAnn, Answer::not_ready));
  }

  TEST_CASE("store: a WAIT that repeats keys ends once all of them exist") {
    Table table;
    CHECK(table.send(kBob, wire::Wait{{"/a", "/b", "/a", "/a"}}) == nothing());
    table.send(kEve, wire::Wait{{"/a", "/a"}});
    CHECK(table.send(kAnn, wire::Set{"/a", ""}) == to(kEve, Answer::ready));
    CHECK(table.send(kAnn, wire::Set{"/b", ""}) == to(kBob, Answer::ready));
    CHECK(table.number_of_waits() == 0);
    CHECK(table.send(kBob, wire::Wait{{"/c", "/d", "/c"}}) == nothing());
    CHECK(table.send(kBob, wire::CancelWait{}) == to(kBob, Answer::wait_cancelled));
    CHECK(table.number_of_waits() == 0);
  }

  TEST_CASE("store table: every creation of a key wakes waiting clients") {
    const std::vector<wire::Request> ways = {wire::Set{"/k", ""}, wire::Append{"/k", "x"},
                                             wire::MultiSet{{{"/other", ""}, {"/k", ""}}}};
    for (const auto& way : ways) {
      CAPTURE(wire::operation_name(way));
      Table table;
      table.send(kBob, wire::Wait{{"/k"}});
      table.send(kEve, wire::Wait{{"/k"}});
      CHECK(table.send(kAnn, way) == wakes({kBob, kEve}));
      CHECK(table.number_of_waits() == 0);
    }
    Table table;
    table.send(kBob, wire::Wait{{"/k"}});
    CHECK(table.send(kAnn, wire::Add{"/k", 1}).replies.size() == 2);
    table.send(kBob, wire::Wait{{"/b"}});
    CHECK(table.send(kAnn, wire::Barrier{"/b", 9}) == wakes({kBob}));
  }

  TEST_CASE("store table: a key counts towards a wait even if it is deleted later") {
    Table table;
    table.send(kAnn, wire::Set{"/there", ""});
    CHECK(table.send(kBob, wire::Wait{{"/a", "/there", "/b", "/a"}}) == nothing());
    CHECK(table.number_of_waits() == 2);
    CHECK(table.send(kAnn, wire::Set{"/a", ""}) == nothing());
    table.send(kAnn, wire::DeleteKey{"/a"});
    CHECK(table.send(kAnn, wire::Set{"/a", ""}) == nothing());
    CHECK(table.send(kAnn, wire::Set{"/b", ""}) == wakes({kBob}));
  }

  TEST_CASE("store table: CANCEL_WAIT ends a wait and gets a reply even without one") {
    Table table;
    CHECK(table.send(kBob, wire::CancelWait{}) == to(kBob, Answer::wait_cancelled));
    table.send(kBob, wire::Wait{{"/k"}});
    CHECK(table.send(kBob, wire::CancelWait{}) == to(kBob, Answer::wait_cancelled));
    CHECK(table.number_of_waits() == 0);
    CHECK(table.send(kAnn, wire::Set{"/k", ""}) == nothing());
  }

  TEST_CASE("store table: a second wait of a client is rejected") {
    Table table;
    table.send(kBob, wire::Wait{{"/k"}});
    CHECK(is_refused(table.send(kBob, wire::Wait{{"/l"}})));
    CHECK(is_refused(table.send(kBob, wire::Barrier{"/b", 2})));
    CHECK(table.number_of_keys() == 0);
  }

  TEST_CASE("store table: a legacy client's next request cancels its wait") {
    Table table;
    table.send_legacy(kBob, wire::Wait{{"/k"}});
    CHECK(table.send_legacy(kBob, wire::NumberOfKeys{}) == to(kBob, wire::Number{0}));
    CHECK(table.send(kAnn, wire::Set{"/k", ""}) == nothing());
    // A client of the current dialect may send requests while it waits.
    table.send(kEve, wire::Wait{{"/l"}});
    CHECK(table.send(kEve, wire::Ping{1}) == to(kEve, wire::Nonce{1}));
    CHECK(table.send(kAnn, wire::Set{"/l", ""}) == wakes({kEve}));
  }

  TEST_CASE("store table: queues keep their order and are separate from values") {
    Table table;
    CHECK(table.send(kAnn, wire::QueuePop{"/q"}) == to(kAnn, wire::Popped{}));
    table.send(kAnn, wire::QueuePush{"/q", "1"});
    table.send(kAnn, wire::QueuePush{"/q", "2"});
    CHECK(table.send(kAnn, wire::QueueLength{"/q"}) == to(kAnn, wire::Number{2}));
    CHECK(table.send(kAnn, wire::NumberOfKeys{}) == to(kAnn, wire::Number{0}));
    CHECK(table.send(kAnn, wire::ListKeys{}) == to(kAnn, wire::Keys{std::string(8, '\0')}));
    CHECK(table.send(kAnn, wire::Check{{"/q"}}) == to(kAnn, Answer::ready));
    CHECK(table.send(kAnn, wire::Wait{{"/q"}}) == to(kAnn, Answer::ready));
    CHECK(table.send(kAnn, wire::QueuePop{"/q"}) == to(kAnn, wire::Popped{2, "1"}));
    CHECK(table.send(kAnn, wire::QueuePop{"/q"}) == to(kAnn, wire::Popped{1, "2"}));
    CHECK(table.send(kAnn, wire::Check{{"/q"}}) == to(kAnn, Answer::not_ready));
    CHECK(table.bytes() == 0);
  }

  TEST_CASE("store table: a value not taken by a woken client goes to the next") {
    Table table;
    for (const ClientId client : {kBob, kEve, kAnn}) table.send(client, wire::Wait{{"/q"}});
    table.send(4, wire::QueuePush{"/q", "1"});
    CHECK(table.drop(kBob) == wakes({kEve}).replies);
    // It sends another request: it has given up the value, or will check again itself.
    StoreOutcome both = wakes({kAnn});
    both.replies.push_back({kEve, wire::Number{0}});
    CHECK(table.send(kEve, wire::NumberOfKeys{}) == both);
    CHECK(table.send(kAnn, wire::QueuePop{"/q"}) == to(kAnn, wire::Popped{1, "1"}));
    CHECK(table.drop(kAnn).empty());
    CHECK(table.bytes() == 0);
  }

  TEST_CASE("store table: a value that was already taken is not offered to another client") {
    Table table;
    table.send(kBob, wire::Wait{{"/q"}});
    table.send(kEve, wire::Wait{{"/q"}});
    table.send(kAnn, wire::QueuePush{"/q", "1"});
    table.send(kAnn, wire::QueuePop{"/q"});
    CHECK(table.drop(kBob).empty());
    CHECK(table.number_of_waits() == 1);
  }

  TEST_CASE("store table: a push wakes only a client that waits for no other key") {
    Table table;
    table.send(kBob, wire::Wait{{"/k", "/q"}});
    table.send(kEve, wire::Wait{{"/q"}});
    CHECK(table.send(kAnn, wire::QueuePush{"/q", "1"}) == wakes({kEve}));
    CHECK(table.send(kAnn, wire::Set{"/k", ""}) == wakes({kBob}));
  }

  TEST_CASE("store table: a push wakes the client that has waited longest") {
    Table table;
    table.send(kBob, wire::Wait{{"/q"}});
    table.send(kEve, wire::Wait{{"/q"}});
    CHECK(table.send(kAnn, wire::QueuePush{"/q", "1"}) == wakes({kBob}));
    CHECK(table.send(kAnn, wire::QueuePush{"/q", "2"}) == wakes({kEve}));
    CHECK(table.send(kAnn, wire::QueuePush{"/q", "3"}) == nothing());
  }

  TEST_CASE("store table: a barrier opens with the last arrival and stays open") {
    Table table;
    CHECK(table.send(kBob, wire::Barrier{"/b", 3}) == nothing());
    CHECK(table.value("/b") == "1");
    CHECK(table.send(kEve, wire::Barrier{"/b", 3}) == nothing());
    CHECK(table.send(kAnn, wire::Barrier{"/b", 3}) == wakes({kAnn, kBob, kEve}));
    CHECK(table.send(kBob, wire::Barrier{"/b", 3}) == wakes({kBob}));
    CHECK(table.value("/b") == "4");
    CHECK(table.send(kBob, wire::Barrier{"/none", 0}) == wakes({kBob}));
  }

  TEST_CASE("store table: a cancelled arrival still counts towards a barrier") {
    Table table;
    table.send(kBob, wire::Barrier{"/b", 3});
    table.send(kBob, wire::CancelWait{});
    CHECK(table.send(kEve, wire::Barrier{"/b", 3}) == nothing());
    CHECK(table.value("/b") == "2");
    CHECK(table.send(kAnn, wire::Set{"/b", "9"}) == wakes({kEve}));
  }

  TEST_CASE("store table: watching clients are notified of every change") {
    using wire::Change;
    using wire::Notification;
    Table table;
    CHECK(table.send_legacy(kBob, wire::WatchKey{"/k"}) == to(kBob, Answer::watch_registered));
    CHECK(table.send_legacy(kBob, wire::WatchKey{"/k"}) == to(kBob, Answer::watch_registered));
    CHECK(table.send(kAnn, wire::Set{"/k", "1"}) ==
          to(kBob, Notification({Change::created, "/k", "", "1"})));
    CHECK(table.send(kAnn, wire::Set{"/k", "2"}) ==
          to(kBob, Notification({Change::updated, "/k", "1", "2"})));
    CHECK(table.send(kAnn, wire::Append{"/k", "3"}) ==
          to(kBob, Notification({Change::appended, "/k", "2", "23"})));
    CHECK(table.send(kAnn, wire::Add{"/k", 1}).replies.at(0) ==
          Delivery{kBob, Notification({Change::updated, "/k", "23", "24"})});
    CHECK(table.send(kAnn, wire::DeleteKey{"/k"}).replies.at(0) ==
          Delivery{kBob, Notification({Change::deleted, "/k", "24", ""})});
    table.drop(kBob);
    CHECK(table.send(kAnn, wire::Set{"/k", "1"}) == nothing());
  }

  TEST_CASE("store table: a removed client gets no replies and leaves no state") {
    Table table;
    table.send(kBob, wire::Wait{{"/a", "/b"}});
    table.send(kEve, wire::Barrier{"/c", 2});
    table.drop(kBob);
    table.drop(kEve);
    CHECK(table.number_of_waits() == 0);
    CHECK(table.send(kAnn, wire::Set{"/a", ""}) == nothing());
    CHECK(table.send(kAnn, wire::Barrier{"/c", 2}) == wakes({kAnn}));
    table.send(kAnn, wire::DeleteKey{"/a"});
    table.send(kAnn, wire::DeleteKey{"/c"});
    CHECK(table.bytes() == 0);
  }

  TEST_CASE("store table: clear() removes all keys and waits and watches") {
    Table table;
    table.send(kAnn, wire::Set{"/k", "v"});
    table.send(kAnn, wire::QueuePush{"/q", "v"});
    table.send(kBob, wire::Wait{{"/a"}});
    table.send(kEve, wire::WatchKey{"/k"});
    table.clear();
    CHECK(table.bytes() == 0);
    CHECK(table.number_of_waits() == 0);
    CHECK(table.send(kAnn, wire::Check{{"/q"}}) == to(kAnn, Answer::not_ready));
    CHECK(table.send(kAnn, wire::MultiSet{{{"/k", ""}, {"/a", ""}}}) == nothing());
  }

  TEST_CASE("store table: a full table accepts only requests that do not need more memory") {
    Table table({.bytes_max = 2000});
    CHECK(table.send(kAnn, wire::Set{"/k", std::string(1000, 'x')}) == nothing());
    CHECK(is_refused(table.send(kAnn, wire::Set{"/l", std::string(1000, 'x')})));
    CHECK(is_refused(table.send(kAnn, wire::Append{"/k", std::string(1000, 'x')})));
    CHECK(is_refused(table.send(kAnn, wire::QueuePush{"/q", std::string(1000, 'x')})));
    CHECK(table.send(kAnn, wire::Set{"/k", std::string(1000, 'y')}) == nothing());
    CHECK(table.send(kAnn, wire::Set{"/k", ""}) == nothing());
    CHECK(table.send(kAnn, wire::Set{"/l", std::string(1000, 'x')}) == nothing());
  }

  TEST_CASE("store table: waits and watches have a common limit") {
    Table table({.waits_max = 3});
    CHECK(table.send(kAnn, wire::Wait{{"/a", "/b"}}) == nothing());
    CHECK(is_refused(table.send(kBob, wire::Wait{{"/a", "/b"}})));
    CHECK(table.send(kBob, wire::WatchKey{"/a"}) == to(kBob, Answer::watch_registered));
    CHECK(is_refused(table.send(kBob, wire::WatchKey{"/b"})));
    CHECK(is_refused(table.send(kEve, wire::Barrier{"/c", 2})));
    table.drop(kAnn);
    CHECK(table.send(kEve, wire::Barrier{"/c", 2}) == nothing());
  }

  TEST_CASE("store: repeated keys of a WAIT count once towards the limit of waits") {
    Table table({.waits_max = 2});
    CHECK(table.send(kAnn, wire::Wait{{"/a", "/b", "/a"}}) == nothing());
    table.drop(kAnn);
    CHECK(is_refused(table.send(kAnn, wire::Wait{{"/a", "/b", "/c"}})));
  }

  TEST_CASE("store table: an append beyond the value limit is rejected") {
    Table table;
    table.send(kAnn, wire::Set{"/k", std::string(wire::kValueBytesMax, 'x')});
    CHECK(table.send(kAnn, wire::Append{"/k", ""}) == nothing());
    CHECK(is_refused(table.send(kAnn, wire::Append{"/k", "x"})));
  }

  TEST_CASE("store table: a too long reply is rejected before it is built") {
    Table table({.unread_bytes_max = 1000});
    table.send(kAnn, wire::Set{"/k", std::string(600, 'x')});
    CHECK(table.send(kAnn, wire::MultiGet{{"/k"}}).refusal.empty());
    CHECK(is_refused(table.send(kAnn, wire::MultiGet{{"/k", "/k"}})));
    table.send(kAnn, wire::Set{std::string(1000, 'k'), ""});
    CHECK(is_refused(table.send(kAnn, wire::ListKeys{})));
  }
}

}  // namespace store_table_test
