// Whom ddprun tells that no worker has come to its store.
#include "launcher/agent/store_use.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace store_use_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

LaunchPlan plan_of(std::size_t workers, const std::string& program) {
  LaunchPlan plan;
  plan.workers.resize(workers);
  for (auto& worker : plan.workers) worker.arguments = {program, "-u", "train.py"};
  return plan;
}

WorkerExited failed_with(const std::string& message, const std::string& last_line = "") {
  return {.exit_code = 1, .error_message = message, .last_lines = {last_line}};
}

struct Warnings : EventSink {
  void take(const Event& event, std::chrono::system_clock::time_point) override {
    texts.push_back(std::get<Warning>(event).message);
  }
  std::vector<std::string> texts;
};

/// A store and the watch over it, with a limit that passes when it is told to.
struct Bench {
  explicit Bench(std::size_t workers = 2) : plan(plan_of(workers, "/usr/bin/python3")) {
    store.start();
  }

  /// Whoever connects stays connected.
  void connect() {
    const auto address = boost::asio::ip::make_address("127.0.0.1");
    client.connect({address, store.endpoint().port});
    while (store.stats().accepted == 0) context.run_one();
  }

  void pass_the_limit() {
    watch.put_off_limits(-1h);
    boost::asio::steady_timer later(context, 1ms);
    bool is_later = false;
    later.async_wait([&](boost::system::error_code) { is_later = true; });
    while (!is_later) context.run_one();
  }

  LaunchPlan plan;
  Warnings warnings;
  boost::asio::io_context context;
  StoreServer store{context.get_executor(), {}};
  boost::asio::ip::tcp::socket client{context};
  StoreUseWatch watch{context.get_executor(),
                      plan,
                      store,
                      warnings,
                      {.until_warning = 1h, .until_interruption_counts = 0ms}};
};

}  // namespace

TEST_SUITE("use of the store") {
  TEST_CASE("several workers of Python on one node are expected at ddprun's store") {
    CHECK(expects_store_use(plan_of(2, "/usr/bin/python3.11")));
    CHECK_FALSE(expects_store_use(plan_of(1, "/usr/bin/python3")));
    CHECK_FALSE(expects_store_use(plan_of(2, "/usr/bin/trainer")));
    auto plan = plan_of(2, "python");
    plan.worker_store_port = 0;
    CHECK_FALSE(expects_store_use(plan));
    plan = plan_of(2, "python");
    plan.nodes.emplace();
    CHECK_FALSE(expects_store_use(plan));
  }

  TEST_CASE("an end tells of it if somebody waited, or failed at forming a group") {
    const StoreUseLimits limits;
    const auto tells = [&](const UnusedStoreEnd& end) {
      return may_have_met_elsewhere(end, limits);
    };
    CHECK(tells({.was_interrupted = true, .lasted = 5s}));
    CHECK_FALSE(tells({.was_interrupted = true, .lasted = 4999ms}));
    CHECK_FALSE(tells({.lasted = 20s}));
    CHECK(tells({.exits = {failed_with("RuntimeError: TCPStore timed out")}}));
    CHECK(tells({.exits = {failed_with("", "  store, rank, size = next(rendezvous_iterator)")}}));
    CHECK_FALSE(tells({.exits = {failed_with("ImportError: no module named tqdm")}}));
    auto succeeded = failed_with("", "init_process_group took 1 s");
    succeeded.exit_code = 0;
    CHECK_FALSE(tells({.exits = {succeeded}}));
  }

  TEST_CASE("who does not come in time is told of once in a run") {
    Bench bench;
    bench.watch.start_attempt();
    bench.pass_the_limit();
    REQUIRE(bench.warnings.texts.size() == 1);
    const auto& text = bench.warnings.texts[0];
    CHECK(text.starts_with("no worker has connected to the store at 127.0.0.1:"));
    CHECK(text.ends_with("need --agent_store=off"));
    CHECK(bench.watch.end_attempt({}, true).empty());
    bench.watch.start_attempt();
    bench.pass_the_limit();
    CHECK(bench.warnings.texts.size() == 1);
  }

  TEST_CASE("a run that ends before that has it in its reason") {
    Bench bench;
    bench.watch.start_attempt();
    CHECK(bench.watch.end_attempt({}, true).starts_with("; no worker has connected"));
    CHECK(bench.watch.end_attempt({}, false).empty());
    bench.pass_the_limit();
    CHECK(bench.warnings.texts.empty());
  }

  TEST_CASE("one connection is enough, but none of an earlier attempt") {
    Bench bench;
    bench.watch.start_attempt();
    bench.connect();
    bench.pass_the_limit();
    CHECK(bench.warnings.texts.empty());
    CHECK(bench.watch.end_attempt({}, true).empty());
    bench.watch.start_attempt();
    bench.pass_the_limit();
    CHECK(bench.warnings.texts.size() == 1);
  }

  TEST_CASE("a run of one worker is left alone") {
    Bench bench(1);
    bench.watch.start_attempt();
    bench.pass_the_limit();
    CHECK(bench.warnings.texts.empty());
    CHECK(bench.watch.end_attempt({}, true).empty());
  }
}

}  // namespace store_use_test
