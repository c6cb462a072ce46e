#include "launcher/ssh/starter.hpp"

#include "launcher/process/process_start.hpp"
#include "launcher/process/stop_requests.hpp"
#include "launcher/report/exit_code.hpp"
#include "launcher/ssh/node_console.hpp"
#include "launcher/ssh/team.hpp"
#include "launcher/ssh/verdict.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <csignal>
#include <exception>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;
using Kind = NodeReport::Kind;

/// For nodes whose others have ended to end by themselves, with a verdict of their own.
constexpr auto kLaterGrace = 30s;

/// How long the console may take for the last of the nodes' output.
constexpr auto kDrainTimeout = 5s;

/// A run that is asked to stop once stops in order, twice: at once. Who asks a third time does not
/// want to wait for the network either.
constexpr int kStopsMax = 3;

/// By how much two signals may come closer to each other on their way to an agent, which takes
/// those within kOneStopRequest for one.
constexpr auto kTransferTime = 1s;

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool asks_to_stop(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

class Starter : public ReportSink {
 public:
  Starter(asio::io_context& context, const SshPlan& plan)
      : plan_(plan),
        executor_(context.get_executor()),
        console_(executor_, plan.names, plan.has_node_prefix, plan.task.agent.mark),
        signals_(executor_),
        later_(executor_),
        team_(executor_, *this) {
    facts_.nodes_min = plan.nodes_min;
    facts_.nodes.assign(plan.names.size(), {.state = NodeFate::State::left_out});
    if (plan.own) add(*plan.own);
    for (const auto& target : plan.task.targets) add(target);
    if (plan.host && is_started(*plan.host)) {
      facts_.host = plan.host;
      facts_.host_name = plan.names[*plan.host];
    }
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGRTMIN}) {
      if (signal != SIGHUP || !is_ignored(signal)) signals_.add(signal);
    }
  }

  void start() {
    if (plan_.own) team_.add_agent(*plan_.own, plan_.task);
    team_.add_relays(plan_.ssh, plan_.task, plan_.task.targets);
    wait_for_signal();
    team_.start([this](std::exception_ptr failure) {
      failure_ = std::move(failure);
      boost::system::error_code ignored;
      signals_.cancel(ignored);
      later_.cancel();
      console_.show_reports();
      tell_end();
      asio::co_spawn(executor_, console_.drain(Deadline::after(kDrainTimeout)), asio::detached);
    });
  }

  void take(NodeReport report) override {
    switch (report.kind) {
      case Kind::standard_output:
      case Kind::standard_error:
        return console_.take(report.node, report.kind == Kind::standard_error, report.text);
      case Kind::started:
        return set(report.node, {.state = NodeFate::State::running});
      case Kind::not_started:
        console_.finish(report.node);
        // Whoever has stopped the run has no use for the reason.
        if (facts_.interrupted_by == 0) say_of(report.node, "not started: " + report.text);
        lose(report.node, "was not started");
        return set(report.node, {.state = NodeFate::State::not_started});
      case Kind::ended:
        console_.finish(report.node);
        tell_end_of(report.node, report.exit_code);
        return set(report.node, {.state = NodeFate::State::ended,
                                 .exit_code = report.exit_code,
                                 .order = ++ended_,
                                 .has_refused = console_.has_refused(report.node)});
      case Kind::lost:
        console_.finish(report.node);
        say_of(report.node, "lost: " + report.text);
        lose(report.node, "was lost");
        return set(report.node, {.state = NodeFate::State::lost});
    }
  }

  asio::awaitable<void> room() override { return console_.room(); }

  /// When all is over.
  int exit_code() const {
    if (failure_) std::rethrow_exception(failure_);
    if (!console_.has_lost_output()) return exit_code_;
    return exit_code_without_output(exit_code_);
  }

 private:
  void add(const Target& target) { facts_.nodes[target.node].state = NodeFate::State::starting; }

  bool is_started(std::size_t node) const {
    return facts_.nodes[node].state == NodeFate::State::starting;
  }

  void say_of(std::uint32_t node, const std::string& what) {
    console_.say(plan_.names[node] + ": " + what);
  }

  /// For the last line, if it comes to that.
  void lose(std::uint32_t node, const std::string& how) {
    if (!facts_.is_cut_short) losses_.push_back(plan_.names[node] + " " + how);
  }

  /// Agents that die by what they were sent have been asked to end.
  void tell_end_of(std::uint32_t node, int exit_code) {
    if (exit_code >= 0) return lose(node, "ended with exit code " + std::to_string(exit_code));
    if (sent_.contains(-exit_code)) return;
    say_of(node, "its agent was killed by " + signal_name(-exit_code));
    lose(node, "lost its agent by " + signal_name(-exit_code));
  }

  /// Where the nodes cannot say how the run has ended, or do not know why.
  void tell_end() {
    const auto reason = describe_end(facts_, stop_reason_, losses_);
    if (reason.empty()) return;
    console_.say("the run ended with exit code " + std::to_string(exit_code_) + ": " + reason);
  }

  void set(std::uint32_t node, NodeFate fate) {
    facts_.nodes[node] = fate;
    const auto decision = decide(facts_);
    switch (decision.action) {
      case SshDecision::Action::wait:
        return;
      case SshDecision::Action::stop:
        return stop(decision.reason);
      case SshDecision::Action::stop_later:
        return stop_later(decision.reason);
      case SshDecision::Action::finish:
        exit_code_ = decision.exit_code;
    }
  }

  void stop(const std::string& reason) {
    if (std::exchange(facts_.is_cut_short, true)) return;
    stop_reason_ = reason;
    console_.say("stopping the run: " + reason);
    send(SIGTERM);
  }

  void stop_later(const std::string& reason) {
    if (std::exchange(is_stop_due_, true)) return;
    later_.expires_after(kLaterGrace);
    later_.async_wait([this, reason](boost::system::error_code error) {
      if (!error) stop(reason);
    });
  }

  void wait_for_signal() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (error) return;
      obey(signal);
      wait_for_signal();
    });
  }

  void send(int signal) {
    sent_.insert(signal);
    team_.signal(signal);
  }

  void obey(int signal) {
    if (!asks_to_stop(signal)) return send(signal);
    if (facts_.interrupted_by == 0) facts_.interrupted_by = signal;
    team_.stop_calling();
    const auto meaning = requests_.take(signal, StopRequests::Clock::now());
    if (meaning == StopRequests::Meaning::repeated) return;
    if (++stops_ < kStopsMax) return send(signal);
    sent_.insert(SIGKILL);
    console_.say("received " + signal_name(signal) + " again: giving up all connections");
    team_.kill();
  }

  const SshPlan& plan_;
  asio::any_io_executor executor_;
  NodeConsole console_;
  asio::signal_set signals_;
  asio::steady_timer later_;
  Team team_;
  RunFacts facts_;
  int ended_ = 0;
  StopRequests requests_{kOneStopRequest + kTransferTime};
  int stops_ = 0;
  std::set<int> sent_;  ///< signals, to all nodes
  bool is_stop_due_ = false;
  std::string stop_reason_;          ///< if it was cut short
  std::vector<std::string> losses_;  ///< nodes that had gone by then, and how
  int exit_code_ = kExitFailure;
  std::exception_ptr failure_;
};

}  // namespace

int run_over_ssh(const SshPlan& plan) {
  if (!plan.task.agent.secret.empty()) make_memory_private();
  ::signal(SIGPIPE, SIG_IGN);
  asio::io_context context(1);
  Starter starter(context, plan);
  starter.start();
  context.run();
  return starter.exit_code();
}

}  // namespace ddprun::ssh
