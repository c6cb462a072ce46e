// Evidence for workers that wait for a store at another address.
#include "launcher/agent/store_use.hpp"

#include "rendezvous/base/run_clock.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <doctest/doctest.h>
#include <sched.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

namespace store_use_test {

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

LaunchPlan plan_of(std::size_t workers) {
  LaunchPlan plan;
  plan.workers.resize(workers);
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

/// Results of the watch's searches. Owned by their threads, too.
struct Searches {
  std::vector<pid_t> sleepers;
  int count = 0;
  std::promise<void> end;  ///< of a search that blocks
  bool blocks = false;
};

/// A store and the watch over it.
struct Bench {
  explicit Bench(std::size_t workers) : plan(plan_of(workers)) { store.start(); }

  /// The connection stays open.
  void connect() {
    const auto address = boost::asio::ip::make_address("127.0.0.1");
    client.connect({address, store.endpoint().port});
    while (store.stats().accepted == 0) context.run_one();
  }

  /// Starts the next search, if due; it finds these processes.
  void begin_search(std::vector<pid_t> processes) {
    searches->sleepers = std::move(processes);
    RunClock::add_suspension(-24h);  // as if 24 hours had passed
    boost::asio::steady_timer later(context, 1ms);
    bool is_later = false;
    later.async_wait([&](boost::system::error_code) { is_later = true; });
    while (!is_later) context.run_one();
  }

  /// The same, up to its end.
  void search(std::vector<pid_t> processes) {
    begin_search(std::move(processes));
    while (watch.is_searching()) context.run_one();
  }

  LaunchPlan plan;
  Warnings warnings;
  std::shared_ptr<Searches> searches = std::make_shared<Searches>();
  boost::asio::io_context context;
  StoreServer store{context.get_executor(), {}};
  boost::asio::ip::tcp::socket client{context};
  StoreUseWatch watch{context.get_executor(),
                      plan,
                      store,
                      warnings,
                      [searches = searches] {
                        ++searches->count;
                        if (searches->blocks) searches->end.get_future().wait_for(20s);
                        return searches->sleepers;
                      },
                      {.until_search = 1h}};
};

}  // namespace

TEST_SUITE("use of the store") {
  TEST_CASE("store use: store use is expected only on one node without a store in rank 0") {
    CHECK(expects_store_use(plan_of(1)));
    auto plan = plan_of(2);
    plan.worker_store_port = 0;
    CHECK_FALSE(expects_store_use(plan));
    plan = plan_of(2);
    plan.nodes.emplace();
    CHECK_FALSE(expects_store_use(plan));
  }

  TEST_CASE("store use: processes that sleep in two searches for all workers cause one warning") {
    Bench bench(2);
    bench.watch.start_attempt();
    bench.search({17, 12});
    CHECK(bench.warnings.texts.empty());
    bench.search({12, 17, 30});
    REQUIRE(bench.warnings.texts.size() == 1);
    const auto& text = bench.warnings.texts[0];
    CHECK(text.starts_with("no worker has connected to the store at 127.0.0.1:"));
    CHECK(
        text.ends_with(", and process 12 and 1 more wait for a store elsewhere; a program that "
                       "sets MASTER_PORT or the address in init_method itself needs "
                       "--agent_store=off"));
    bench.watch.start_attempt();
    bench.search({12, 17});
    CHECK(bench.searches->count == 2);
  }

  TEST_CASE("store use: processes that do other work cause no warning") {
    Bench bench(2);
    bench.watch.start_attempt();
    for (int i = 0; i < 20; ++i) bench.search({});
    bench.search({12, 17});
    bench.search({18, 19});  // others
    bench.search({18});      // one of two workers
    bench.search({18});
    CHECK(bench.searches->count == 24);
    CHECK(bench.warnings.texts.empty());
  }

  TEST_CASE("store use: a process started by the only worker can cause the warning") {
    Bench bench(1);
    bench.watch.start_attempt();
    bench.search({21, 22});
    bench.search({22});
    REQUIRE(bench.warnings.texts.size() == 1);
    CHECK(bench.warnings.texts[0].find("process 22 waits for a store") != std::string::npos);
  }

  TEST_CASE("store use: a blocked search does not delay the event loop or the end") {
    Bench bench(1);
    bench.searches->blocks = true;
    bench.watch.start_attempt();
    bench.begin_search({12});
    CHECK(bench.watch.is_searching());
    CHECK(bench.watch.end_attempt({}).empty());
    CHECK_FALSE(bench.watch.is_searching());
    bench.searches->end.set_value();
    // The bench and the watch are the other owners.
    const auto deadline = Deadline::after(20s);
    while (bench.searches.use_count() > 2 && !deadline.passed()) ::sched_yield();
    CHECK(bench.searches.use_count() == 2);
  }

  TEST_CASE("store use: a connection ends the searches of its own attempt only") {
    Bench bench(1);
    bench.watch.start_attempt();
    bench.connect();
    bench.search({12});
    bench.search({12});
    CHECK(bench.searches->count == 0);
    CHECK(bench.watch.end_attempt({failed_with("The client socket has timed out")}).empty());
    bench.watch.start_attempt();
    bench.search({12});
    bench.search({12});
    CHECK(bench.warnings.texts.size() == 1);
  }

  TEST_CASE("store use: advice is given only if a worker could not reach a store") {
    const auto advice_after = [](const WorkerExited& exit) {
      Bench bench(1);
      bench.watch.start_attempt();
      return bench.watch.end_attempt({exit});
    };
    const std::string missed = "The client socket has timed out after 300000ms while trying to";
    CHECK(advice_after(failed_with(missed)).starts_with("; a program that sets MASTER_PORT"));
    CHECK(advice_after(failed_with("", "DistNetworkError: " + missed)).ends_with("store=off"));
    CHECK(advice_after(failed_with("ImportError: no module named tqdm")).empty());
    CHECK(advice_after({.signal = 2}).empty());
    CHECK(advice_after({.exit_code = 0, .last_lines = {missed}}).empty());
  }
}

}  // namespace store_use_test
