// What a request costs, so that the server can leave room for others.
#include "rendezvous/store/store_table.hpp"
#include "tests/support/store_printers.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

namespace store_work_test {

using namespace ddprun;

namespace {

constexpr ClientId kAnn = 1, kBob = 2, kEve = 3;

StoreOutcome ask(StoreTable& table, wire::Request request) {
  return table.apply(kAnn, std::move(request), wire::Dialect::modern);
}

}  // namespace

TEST_SUITE("store work") {
  TEST_CASE("the work of a request grows with its keys, its values and those that are told") {
    StoreTable table({});
    const std::string large(100 * 1024, 'x');
    ask(table, wire::Set{"/large", large});
    ask(table, wire::Set{"/small", "x"});
    for (const ClientId client : {kAnn, kBob, kEve})
      table.apply(client, wire::WatchKey{"/small"}, wire::Dialect::legacy);
    struct Row {
      wire::Request request;
      std::size_t work;
    };
    const std::vector<Row> rows = {
        {wire::Ping{1}, 1},
        {wire::Get{"/absent"}, 2},
        {wire::Get{"/large"}, 102},
        {wire::Set{"/absent", large}, 103},
        {wire::Set{"/small", ""}, 6},
        {wire::Add{"/small", 1}, 5},
        {wire::CompareSet{"/absent", "", large}, 103},
        {wire::Append{"/absent", large}, 103},
        {wire::Check{{"/a", "/b", "/c"}}, 4},
        {wire::Wait{std::vector<std::string>(1000, "/a")}, 1001},
        {wire::MultiGet{{"/small", "/large"}}, 103},
        {wire::MultiSet{{{"/a", large}, {"/small", ""}}}, 106},
        {wire::ListKeys{}, 3},
    };
    for (const auto& [request, work] : rows) {
      CAPTURE(wire::operation_name(request));
      CHECK(table.work(request) == work);
    }
    ask(table, wire::QueuePush{"/queue", large});
    CHECK(table.work(wire::QueuePop{"/queue"}) == 102);
  }

  TEST_CASE("a MULTI_GET of much is divided, and its replies are those of the whole") {
    StoreTable table({});
    const std::string large(100 * 1024, 'x');
    for (const std::string key : {"/a", "/b", "/c"}) ask(table, wire::Set{key, large + key});
    const std::vector<std::string> keys = {"/a", "/absent", "/b", "/c"};
    wire::Request request = wire::MultiGet{keys};
    CHECK_FALSE(table.split(request, 1000));
    CHECK(request == wire::Request(wire::MultiGet{keys}));
    std::vector<std::string> values;
    for (std::optional<wire::Request> next = request; next;) {
      auto first = *next;
      next = table.split(first, 100);
      const auto replies = ask(table, first).replies;
      const auto& part = std::get<wire::Values>(replies.at(0).reply).values;
      CHECK(part.size() <= 2);
      values.insert(values.end(), part.begin(), part.end());
    }
    CHECK(values == std::vector<std::string>{large + "/a", "", large + "/b", large + "/c"});
    request = wire::ListKeys{};
    CHECK_FALSE(table.split(request, 1));
  }
}

}  // namespace store_work_test
