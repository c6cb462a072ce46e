// A term without an etcd: the port is closed, so no lease is renewed and nothing is written down.
#include "rendezvous/etcd/term.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

using namespace ddprun;
using namespace ddprun::etcd;
using namespace std::chrono_literals;

namespace {

/// Nobody listens at a port that only root may take.
const StoreEndpoint kNoEtcd{"127.0.0.1", 1};

struct Begun {
  /// A node that was granted its leases this long ago.
  explicit Begun(std::chrono::milliseconds since) {
    const auto sent = Deadline::Clock::now() - since;
    const Log log = [this](LogLevel, std::string_view line) { said += line; };
    const TermFacts facts{.keys = RunKeys("/ddprun", "run"),
                          .node = "a",
                          .created = 5,
                          .office = HeldLease({.id = 7, .time = 2s}, sent),
                          .record = HeldLease({.id = 8, .time = 60s}, sent)};
    auto seat = std::make_unique<membership::Seat>(context.get_executor(),
                                                   StoreEndpoint{"127.0.0.1", 0}, nullptr, 0, log);
    const auto client = std::make_shared<Client>(context.get_executor(), std::vector{kNoEtcd});
    term = std::make_shared<Term>(client, facts, std::move(seat), log);
    boost::asio::post(context, [this] { term->begin({.run_id = "run"}, std::nullopt); });
  }

  std::string said;
  boost::asio::io_context context;
  std::shared_ptr<Term> term;
};

}  // namespace

TEST_SUITE("a term without etcd") {
  TEST_CASE("ends as it begins if its lease has ended before") {
    Begun begun(10s);
    begun.context.run_one();
    CHECK(begun.term->has_ended());
    CHECK(begun.said.find("no longer hosts the rendezvous") != std::string::npos);
    begun.context.run();
  }
}
