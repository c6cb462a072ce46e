#include "launcher/ssh/starter.hpp"

#include "launcher/process/process_start.hpp"
#include "launcher/process/stop_requests.hpp"
#include "launcher/report/exit_code.hpp"
#include "launcher/ssh/node_connection.hpp"
#include "launcher/ssh/node_console.hpp"
#include "launcher/ssh/node_results.hpp"
#include "launcher/ssh/opening_window.hpp"
#include "launcher/ssh/ssh_command.hpp"
#include "rendezvous/base/signal_name.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

/// Time for the remaining nodes to end by themselves, with the exit code of the run.
constexpr auto kStopGrace = 30s;

/// Limit of writing the rest of the nodes' output to the console.
constexpr auto kDrainTimeout = 5s;

/// The first stop request stops the run in an orderly way, the second one immediately. The third
/// does not wait for the network.
constexpr int kStopsMax = 3;

/// Added to kOneStopRequest, because varying network delays can reduce the interval of two signals.
constexpr auto kTransferTime = 1s;

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool is_stop_request(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

class Starter {
 public:
  Starter(asio::io_context& context, const SshPlan& plan)
      : plan_(plan),
        executor_(context.get_executor()),
        console_(executor_, plan.names, plan.has_node_prefix, plan.task.mark),
        signals_(executor_),
        stop_timer_(executor_),
        window_(executor_) {
    facts_.nodes_min = plan.nodes_min;
    facts_.nodes.assign(plan.names.size(), {.state = NodeResult::State::left_out});
    if (plan.own)
      add(*plan.own, {.program = "/proc/self/exe", .arguments = {"ddprun", kAgentCommand}});
    for (const auto& target : plan.targets) {
      add(target, {.arguments = ssh_command(plan.ssh, plan.settings, target.destination)});
    }
    if (plan.host && is_planned(*plan.host)) {
      facts_.host = plan.host;
      facts_.host_name = plan.names[*plan.host];
    }
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGRTMIN}) {
      if (signal != SIGHUP || !is_ignored(signal)) signals_.add(signal);
    }
  }

  void start() {
    wait_for_signal();
    running_ = connections_.size();
    for (const auto& [node, connection] : connections_) {
      asio::co_spawn(executor_, run_node(node, *connection), [this](std::exception_ptr failure) {
        if (failure && !failure_) failure_ = std::move(failure);
        if (--running_ == 0) finish();
      });
    }
  }

  /// After the end of the run.
  int exit_code() const {
    if (failure_) std::rethrow_exception(failure_);
    if (!console_.has_lost_output()) return exit_code_;
    return exit_code_without_output(exit_code_);
  }

 private:
  void add(const Target& target, ProcessRequest request) {
    facts_.nodes[target.node].state = NodeResult::State::starting;
    connections_.emplace_back(
        target.node, std::make_unique<NodeConnection>(executor_, console_, target.node,
                                                      std::move(request), plan_.settings.program));
  }

  bool is_planned(std::size_t node) const {
    return facts_.nodes[node].state == NodeResult::State::starting;
  }

  bool is_stopping() const { return facts_.interrupted_by != 0 || facts_.is_cut_short; }

  asio::awaitable<void> run_node(std::uint32_t node, NodeConnection& connection) {
    co_await window_.enter();
    if (is_stopping()) {
      window_.leave();
      set(node, {.state = NodeResult::State::not_started});
      co_return;
    }
    auto task = plan_.task;
    task.node_name = plan_.names[node];
    auto running = connection.run(framed(task), [this, node] {
      window_.leave();
      set(node, {.state = NodeResult::State::running});
    });
    const auto end = co_await std::move(running);
    if (end.kind == ConnectionEnd::Kind::not_started) window_.leave();
    console_.finish(node);
    set_end(node, end);
  }

  void set_end(std::uint32_t node, const ConnectionEnd& end) {
    switch (end.kind) {
      case ConnectionEnd::Kind::not_started:
        // After a stop request the reason does not matter.
        if (facts_.interrupted_by == 0) print_node_line(node, "not started: " + end.reason);
        add_loss(node, "was not started");
        return set(node, {.state = NodeResult::State::not_started});
      case ConnectionEnd::Kind::ended:
        report_end_of(node, end.exit_code);
        return set(node, {.state = NodeResult::State::ended,
                          .exit_code = end.exit_code,
                          .order = ++ended_,
                          .has_refused = console_.has_refused(node)});
      case ConnectionEnd::Kind::lost:
        print_node_line(node, "lost: " + end.reason);
        add_loss(node, "was lost");
        return set(node, {.state = NodeResult::State::lost});
    }
  }

  void finish() {
    boost::system::error_code ignored;
    signals_.cancel(ignored);
    stop_timer_.cancel();
    console_.show_reports();
    report_end();
    asio::co_spawn(executor_, console_.drain(Deadline::after(kDrainTimeout)), asio::detached);
  }

  void print_node_line(std::uint32_t node, const std::string& text) {
    console_.print(plan_.names[node] + ": " + text);
  }

  /// Remembers a loss for the last line. Those after the stop are consequences.
  void add_loss(std::uint32_t node, const std::string& how) {
    if (!facts_.is_cut_short) losses_.push_back(plan_.names[node] + " " + how);
  }

  /// An agent that was killed by a forwarded signal is no loss.
  void report_end_of(std::uint32_t node, int exit_code) {
    if (exit_code >= 0) return add_loss(node, "ended with exit code " + std::to_string(exit_code));
    if (sent_.contains(-exit_code)) return;
    print_node_line(node, "its agent was killed by " + signal_name(-exit_code));
    add_loss(node, "lost its agent by " + signal_name(-exit_code));
  }

  void report_end() {
    const auto reason = describe_end(facts_, stop_reason_, losses_);
    if (!reason) return;
    console_.print("the run ended with exit code " + std::to_string(exit_code_) + ": " + *reason);
  }

  void set(std::uint32_t node, NodeResult result) {
    facts_.nodes[node] = result;
    const auto decision = decide(facts_);
    switch (decision.action) {
      case Decision::Action::wait:
        return;
      case Decision::Action::stop:
        return stop(decision.reason);
      case Decision::Action::stop_later:
        return stop_later(decision.reason);
      case Decision::Action::finish:
        exit_code_ = decision.exit_code;
    }
  }

  void stop(const std::string& reason) {
    if (std::exchange(facts_.is_cut_short, true)) return;
    stop_reason_ = reason;
    console_.print("stopping the run: " + reason);
    send(SIGTERM);
  }

  void stop_later(const std::string& reason) {
    if (std::exchange(is_stop_due_, true)) return;
    stop_timer_.expires_after(kStopGrace);
    stop_timer_.async_wait([this, reason](boost::system::error_code error) {
      if (!error) stop(reason);
    });
  }

  void wait_for_signal() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (error) return;
      on_signal(signal);
      wait_for_signal();
    });
  }

  void send(int signal) {
    sent_.insert(signal);
    for (const auto& [node, connection] : connections_) connection->signal(signal);
  }

  void on_signal(int signal) {
    if (!is_stop_request(signal)) return send(signal);
    if (facts_.interrupted_by == 0) facts_.interrupted_by = signal;
    for (const auto& [node, connection] : connections_) connection->cancel_start();
    const auto meaning = requests_.take(signal, StopRequests::Clock::now());
    if (meaning == StopRequests::Meaning::repeated) return;
    if (++stops_ < kStopsMax) return send(signal);
    sent_.insert(SIGKILL);
    console_.print("received " + signal_name(signal) + " again: closing all connections");
    for (const auto& [node, connection] : connections_) connection->kill();
  }

  const SshPlan& plan_;
  asio::any_io_executor executor_;
  NodeConsole console_;
  asio::signal_set signals_;
  asio::steady_timer stop_timer_;
  OpeningWindow window_;
  std::vector<std::pair<std::uint32_t, std::unique_ptr<NodeConnection>>> connections_;
  std::size_t running_ = 0;  ///< connections that have not ended
  RunFacts facts_;
  int ended_ = 0;
  StopRequests requests_{kOneStopRequest + kTransferTime};
  int stops_ = 0;
  std::set<int> sent_;  ///< signals sent to all nodes
  bool is_stop_due_ = false;
  std::string stop_reason_;          ///< if facts_.is_cut_short
  std::vector<std::string> losses_;  ///< of nodes before the stop
  int exit_code_ = kExitFailure;
  std::exception_ptr failure_;
};

}  // namespace

int run_over_ssh(const SshPlan& plan) {
  ::signal(SIGPIPE, SIG_IGN);
  asio::io_context context(1);
  Starter starter(context, plan);
  starter.start();
  context.run();
  return starter.exit_code();
}

}  // namespace ddprun::ssh
