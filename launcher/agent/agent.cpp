#include "launcher/agent/agent.hpp"

#include "launcher/agent/attempt.hpp"
#include "launcher/agent/emit.hpp"
#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/guardian_watch.hpp"
#include "launcher/agent/job_control.hpp"
#include "launcher/agent/restart_policy.hpp"
#include "launcher/agent/shared_run.hpp"
#include "launcher/agent/store_use.hpp"
#include "launcher/report/event_text.hpp"
#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/store/listener.hpp"
#include "rendezvous/store/store_server.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// Signals that have a meaning of their own unless the plan lets them stop the run.
const std::vector<int>& other_signals() {
  static const std::vector<int> signals = {SIGUSR1, SIGUSR2, SIGQUIT, SIGRTMIN};
  return signals;
}

/// Ctrl-\ in a terminal, and a signal that no other launcher gives a meaning.
bool asks_for_stacks(int signal) {
  return signal == SIGQUIT || signal == SIGRTMIN;
}

/// nohup's way to say that the end of the terminal is not the end of the run.
bool is_hang_up_ignored() {
  struct sigaction action {};
  return ::sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

class Agent::Impl {
 public:
  Impl(asio::any_io_executor executor, const LaunchPlan& plan, const RunFolder& folder,
       Containment& containment, OutputRouter& router, EventSink& events)
      : executor_(std::move(executor)),
        plan_(plan),
        folder_(folder),
        containment_(containment),
        router_(router),
        events_(events),
        surroundings_{executor_, plan, folder, containment, router, events},
        signals_(executor_),
        guardian_watch_(executor_, containment, events),
        pause_(executor_) {
    for (const int signal : plan.signals_to_handle) {
      if (signal != SIGHUP || !is_hang_up_ignored()) signals_.add(signal);
    }
    for (const int signal : other_signals()) {
      if (!is_handled(signal)) signals_.add(signal);
    }
    if (!is_handled(SIGTSTP) && can_be_suspended()) signals_.add(SIGTSTP);
  }

  asio::awaitable<RunFinished> run() {
    guardian_watch_.start();
    // Signals are watched for as long as attempts are made; the group joins both before it goes on.
    auto attempts = asio::co_spawn(executor_, make_attempts(), asio::deferred);
    auto watch = asio::co_spawn(executor_, watch_signals(), asio::deferred);
    auto both = asio::experimental::make_parallel_group(std::move(attempts), std::move(watch));
    auto ended = co_await both.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    const std::exception_ptr& failure = std::get<1>(ended);
    if (failure && !is_started_) std::rethrow_exception(failure);
    const RunFinished finished =
        failure ? finish(RunResult::agent_failed, failure_text(failure), {}) : std::get<2>(ended);
    tell(finished);
    co_return finished;
  }

 private:
  asio::awaitable<RunFinished> make_attempts() {
    if (!plan_.nodes) co_return co_await run_alone();
    co_return co_await run_shared();
  }

  /// With other nodes: what follows is decided for all of them together.
  asio::awaitable<RunFinished> run_shared() {
    SharedRun run(surroundings_);
    shared_ = &run;
    std::function<void()> on_start = [this] { tell_of_start(plan_.store_port); };
    RunFinished finished = co_await run.run(std::move(on_start));
    shared_ = nullptr;
    co_return finished;
  }

  asio::awaitable<RunFinished> run_alone() {
    // For the whole run, so that no attempt has to ask for the port again.
    std::optional<PortReservation> reserved;
    if (plan_.worker_store_port) reserved.emplace(*plan_.worker_store_port);
    StoreServer store(
        executor_,
        {.address = plan_.store_host, .port = plan_.store_port, .log = warnings_to(events_)});
    store.start();
    tell_of_start(store.endpoint().port);
    StoreUseWatch store_use(executor_, plan_, store, events_);
    store_use_ = &store_use;
    AttemptFacts facts{.placement = alone(plan_), .store_port = store.endpoint().port};
    if (reserved) facts.worker_store_port = reserved->port();
    int fast_failures = 0;
    while (true) {
      store_use.start_attempt();
      AttemptOutcome outcome = co_await make_attempt(facts);
      const auto advice = store_use.end_attempt(outcome.exits, outcome.was_interrupted);
      if (not_started_) co_return finish(RunResult::not_started, not_started_->message, {});
      outcome.fast_failures_before = fast_failures;
      const auto decision = decide_after_attempt(outcome, {.max_restarts = plan_.max_restarts});
      if (decision.action == RestartDecision::Action::finish) {
        store_use_ = nullptr;
        co_return finish(decision.result, decision.reason + advice, outcome.exits);
      }
      fast_failures = decision.fast_failures;
      ++facts.attempt;
      ++facts.restart_count;
      tell(RestartDecided{
          .next_attempt = facts.attempt, .reason = decision.reason, .delay = decision.delay});
      store.new_attempt();
      co_await pause(decision.delay);
    }
  }

  void tell_of_start(std::uint16_t port) {
    is_started_ = true;
    tell(RunStarted{.run_id = plan_.run_id,
                    .program = plan_.program,
                    .local_world_size = static_cast<int>(plan_.workers.size()),
                    .store = to_string(StoreEndpoint{plan_.store_host, port}),
                    .log_folder = folder_.is_kept() ? folder_.path() : std::filesystem::path()});
    for (const auto& note : plan_.notes) tell(Note{note});
    for (const auto& warning : plan_.warnings) tell(Warning{warning});
  }

  asio::awaitable<AttemptOutcome> make_attempt(const AttemptFacts& facts) {
    AttemptOutcome outcome{.attempt = facts.attempt, .was_interrupted = stop_signal_ != 0};
    if (outcome.was_interrupted) co_return outcome;
    ++attempts_;
    tell(AttemptStarted{.attempt = facts.attempt,
                        .restarts_left = plan_.max_restarts - facts.attempt});
    Attempt attempt(surroundings_, facts);
    current_ = &attempt;
    AttemptEnd end = co_await attempt.run();
    current_ = nullptr;
    outcome.exits = std::move(end.exits);
    not_started_ = std::move(end.not_started);
    outcome.was_interrupted = stop_signal_ != 0;
    co_return outcome;
  }

  asio::awaitable<void> watch_signals() {
    while (true) {
      const int signal = co_await signals_.async_wait(asio::use_awaitable);
      if (is_handled(signal)) {
        handle_stop_signal(signal);
      } else if (signal == SIGTSTP) {
        suspend_run();
      } else if (asks_for_stacks(signal)) {
        take_stacks(signal);
      } else {
        tell(SignalReceived{.signal = signal, .action = "forwarded to the workers"});
        if (current_ != nullptr) current_->forward(signal);
        if (shared_ != nullptr) shared_->forward(signal);
      }
    }
  }

  void take_stacks(int signal) {
    const auto reason = "asked for by " + signal_name(signal);
    const bool has_workers = (current_ != nullptr && current_->take_stacks(reason)) ||
                             (shared_ != nullptr && shared_->take_stacks(reason));
    tell(SignalReceived{.signal = signal,
                        .action = has_workers ? "taking the stacks of the workers"
                                              : "there are no workers to take the stacks of"});
  }

  bool is_handled(int signal) const {
    const auto& handled = plan_.signals_to_handle;
    return std::find(handled.begin(), handled.end(), signal) != handled.end();
  }

  void suspend_run() {
    tell(SignalReceived{.signal = SIGTSTP, .action = "suspending the workers until SIGCONT"});
    signals_.remove(SIGTSTP);
    const auto duration = suspend(containment_, router_);
    signals_.add(SIGTSTP);
    pause_.expires_at(pause_.expiry() + duration);
    if (current_ != nullptr) current_->put_off_limits(duration);
    if (store_use_ != nullptr) store_use_->put_off_limits(duration);
    tell(Note{"the workers go on after " +
              std::to_string(std::chrono::round<std::chrono::seconds>(duration).count()) + " s"});
  }

  /// The first one stops the workers in an orderly way, the second kills them.
  void handle_stop_signal(int signal) {
    const bool is_first = stop_signal_ == 0;
    tell(SignalReceived{
        .signal = signal,
        .action = is_first ? describe_stop(plan_.shutdown_timeout) : "killing the workers"});
    if (is_first) stop_signal_ = signal;
    pause_.cancel();
    if (shared_ != nullptr) shared_->stop(signal, is_first);
    if (current_ == nullptr) return;
    if (is_first) {
      current_->stop(signal, plan_.shutdown_timeout);
    } else {
      current_->stop(SIGKILL, std::chrono::milliseconds(0));
    }
  }

  asio::awaitable<void> pause(std::chrono::milliseconds delay) {
    if (stop_signal_ != 0) co_return;
    pause_.expires_after(delay);
    // A signal ends it, and having been suspended makes it longer.
    while (stop_signal_ == 0 && std::chrono::steady_clock::now() < pause_.expiry()) {
      boost::system::error_code ignored;
      co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }

  RunFinished finish(RunResult result, const std::string& reason,
                     const std::vector<WorkerExited>& exits) {
    RunFinished finished{.result = result,
                         .attempts = attempts_,
                         .reason = reason,
                         .failures = failures_root_cause_first(exits)};
    finished.exit_code = exit_code_for(result, plan_.exit_code, finished.failures, stop_signal_);
    return finished;
  }

  void tell(const Event& event) { emit(events_, event); }

  asio::any_io_executor executor_;
  const LaunchPlan& plan_;
  const RunFolder& folder_;
  Containment& containment_;
  OutputRouter& router_;
  EventSink& events_;
  const AttemptSurroundings surroundings_;
  asio::signal_set signals_;
  GuardianWatch guardian_watch_;
  asio::steady_timer pause_;

  Attempt* current_ = nullptr;   ///< the attempt under way, if this is the only node
  SharedRun* shared_ = nullptr;  ///< the run with other nodes
  StoreUseWatch* store_use_ = nullptr;
  bool is_started_ = false;
  int attempts_ = 0;     // made, also if their workers could not be started
  int stop_signal_ = 0;  // the first handled signal
  std::optional<WorkerNotStarted> not_started_;
};

Agent::Agent(asio::any_io_executor executor, const LaunchPlan& plan, const RunFolder& folder,
             Containment& containment, OutputRouter& router, EventSink& events)
    : impl_(
          std::make_unique<Impl>(std::move(executor), plan, folder, containment, router, events)) {}

Agent::~Agent() = default;

asio::awaitable<RunFinished> Agent::run() {
  return impl_->run();
}

}  // namespace ddprun
