// The end of a run on one of several nodes after an early interrupt, and if the agent cannot
// continue.
#include "launcher/agent/run.hpp"

#include "tests/support/free_port.hpp"
#include "tests/support/no_descriptors.hpp"
#include "tests/support/worker_bench.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <doctest/doctest.h>

#include <csignal>
#include <future>
#include <optional>

namespace run_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

namespace asio = boost::asio;

class Events : public EventSink {
 public:
  void take(const Event& event, std::chrono::system_clock::time_point) override {
    if (const auto* started = std::get_if<WorkerStarted>(&event)) worker = started->pid;
    if (const auto* exited = std::get_if<WorkerExited>(&event)) signal = exited->signal;
    if (std::holds_alternative<AttemptStarted>(event)) ++attempts;
  }

  std::optional<pid_t> worker;
  std::optional<int> signal;  ///< that ended it
  int attempts = 0;
};

/// A plan with an endless worker; this node hosts the rendezvous.
LaunchPlan host_plan(const FreePort& port, int nodes) {
  LaunchPlan plan;
  plan.run_id = "shared";
  plan.workers = {{.arguments = {"/bin/sleep", "1000"}}};
  plan.stacks.when = StacksWhen::never;
  plan.nodes.emplace();
  plan.nodes->settings.run_id = plan.run_id;
  plan.nodes->settings.nodes_min = plan.nodes->settings.nodes_max = nodes;
  plan.nodes->settings.lease = 500ms;
  plan.nodes->endpoint_host = "127.0.0.1";
  plan.nodes->endpoint_port = static_cast<std::uint16_t>(port.number());
  plan.nodes->is_host = true;
  plan.nodes->name = "here";
  return plan;
}

/// A plan with an endless worker on a single node.
LaunchPlan only_node_plan() {
  LaunchPlan plan;
  plan.run_id = "only";
  plan.workers = {{.arguments = {"/bin/sleep", "1000"}}};
  plan.stacks.when = StacksWhen::never;
  return plan;
}

/// A node's agent without signal handling.
class Node {
 public:
  explicit Node(LaunchPlan plan) : plan_(std::move(plan)) {
    result_ = asio::co_spawn(io_, run_.run([](std::uint16_t) {}), asio::use_future);
  }

  /// Returns false if no event is possible at once.
  bool step() { return io_.poll_one() > 0; }

  template <typename Condition>
  void run_until(Condition condition) {
    const auto deadline = Deadline::after(20s);
    while (!condition()) {
      REQUIRE_FALSE(deadline.passed());
      io_.run_one_for(50ms);
    }
  }

  RunFinished finish() {
    run_until([this] { return result_.wait_for(0s) == std::future_status::ready; });
    return result_.get();
  }

  Run& run() { return run_; }
  Containment& containment() { return containment_; }
  const Events& events() const { return events_; }

 private:
  const LaunchPlan plan_;
  asio::io_context io_;
  Events events_;
  RunFolder folder_{plan_};
  Containment containment_;
  OutputRouter router_{io_.get_executor(), {}};
  const AttemptContext context_{io_.get_executor(), plan_, folder_, containment_, router_, events_};
  Run run_{context_};
  std::future<RunFinished> result_;
};

}  // namespace

TEST_SUITE("run") {
  TEST_CASE("run: a signal at any time ends a host that waits for other nodes") {
    // The start, up to where the node waits for others.
    constexpr int kStepsMax = 40;
    for (int steps = 0; steps < kStepsMax; ++steps) {
      CAPTURE(steps);
      const FreePort port;
      Node node(host_plan(port, 2));
      for (int i = 0; i < steps; ++i) node.step();
      CHECK_FALSE(node.run().has_workers());
      node.run().stop(SIGTERM, true);
      const auto finished = node.finish();
      CHECK(finished.result == RunResult::interrupted);
      CHECK(finished.exit_code == 128 + SIGTERM);
    }
  }

  TEST_CASE("run: a single node reports all started attempts after a signal at any time") {
    constexpr int kStepsMax = 40;
    for (int steps = 0; steps < kStepsMax; ++steps) {
      CAPTURE(steps);
      Node node(only_node_plan());
      for (int i = 0; i < steps; ++i) node.step();
      node.run().stop(SIGTERM, true);
      const auto finished = node.finish();
      CHECK(finished.result == RunResult::interrupted);
      CHECK(finished.exit_code == 128 + SIGTERM);
      CHECK(finished.attempts == node.events().attempts);
    }
  }

  TEST_CASE("run: a single node counts an attempt even if it does not wait for the workers") {
    Node node(only_node_plan());
    node.run_until([&] { return node.events().worker.has_value(); });
    CHECK(node.run().has_workers());
    node.run().stop(SIGTERM, true);
    node.run().stop(SIGTERM, false);
    node.run().stop(SIGTERM, false);
    const auto finished = node.finish();
    CHECK(finished.result == RunResult::interrupted);
    CHECK(finished.attempts == 1);
  }

  TEST_CASE("run: an agent that fails ends only after its workers") {
    const FreePort port;
    Node node(host_plan(port, 1));
    node.run_until([&] { return node.events().worker.has_value(); });
    const pid_t worker = *node.events().worker;
    // A guardian whose lease cannot be extended, without descriptors for a new one.
    ::kill(node.containment().guardian_pid(), SIGSTOP);
    node.containment().guard_until(Deadline::Clock::now());
    {
      const NoDescriptors none;
      node.run_until([&] { return node.containment().guardian_pid() < 0; });
    }
    const auto finished = node.finish();
    CHECK(finished.result == RunResult::agent_failed);
    CHECK(finished.reason.find("guardian") != std::string::npos);
    CHECK(node.events().signal == SIGKILL);
    CHECK_FALSE(is_alive(worker));
  }
}

}  // namespace run_test
