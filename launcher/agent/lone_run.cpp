#include "launcher/agent/lone_run.hpp"

#include "launcher/agent/emit.hpp"
#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/restart_policy.hpp"
#include "launcher/agent/store_use.hpp"
#include "launcher/agent/store_users.hpp"
#include "launcher/process/sleeping_code.hpp"
#include "launcher/report/event_text.hpp"
#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/run_clock.hpp"
#include "rendezvous/store/listener.hpp"
#include "rendezvous/store/store_server.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <csignal>
#include <exception>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun {

namespace asio = boost::asio;

class LoneRun::Impl {
 public:
  explicit Impl(const AttemptSurroundings& surroundings)
      : surroundings_(surroundings),
        plan_(surroundings.plan),
        settings_(restart_settings(plan_.options)),
        pause_(surroundings.executor) {}

  asio::awaitable<RunFinished> run(StartNotice on_start) {
    // For the whole run, so that no attempt has to ask for the port again.
    std::optional<PortReservation> reserved;
    if (plan_.worker_store_port) reserved.emplace(*plan_.worker_store_port);
    StoreServerOptions options{
        .address = plan_.store_host,
        .port = plan_.store_port,
        .log = warnings_to(surroundings_.events),
        .admits_user = store_users(plan_, surroundings_.containment),
    };
    if (options.admits_user) options.admits_address = [](const std::string&) { return false; };
    StoreServer store(surroundings_.executor, std::move(options));
    store.start();
    AttemptFacts facts{.placement = alone(plan_), .store_port = store.endpoint().port};
    if (reserved) facts.worker_store_port = reserved->port();
    on_start(facts.store_port);
    std::exception_ptr failure;
    try {
      co_return co_await make_attempts(store, std::move(facts));
    } catch (...) {
      failure = std::current_exception();
    }
    co_return finish(RunResult::agent_failed, failure_text(failure), {});
  }

  void forward(int signal) {
    if (current_ != nullptr) current_->forward(signal);
  }

  bool take_stacks(const std::string& reason) {
    return current_ != nullptr && current_->take_stacks(reason);
  }

  void stop(int signal, bool is_first) {
    if (is_first) stop_signal_ = signal;
    pause_.cancel();
    if (current_ == nullptr) return;
    if (is_first) {
      current_->stop(signal, plan_.options.shutdown_timeout);
    } else {
      current_->stop(SIGKILL, std::chrono::milliseconds(0));
    }
  }

 private:
  asio::awaitable<RunFinished> make_attempts(StoreServer& store, AttemptFacts facts) {
    StoreUseWatch store_use(surroundings_.executor, plan_, store, surroundings_.events,
                            [agent = ::getpid()] { return sleeping_in_pytorch(agent); });
    store_use_ = &store_use;
    RestartHistory history;
    while (true) {
      store_use.start_attempt();
      AttemptOutcome outcome = co_await make_attempt(facts);
      const auto advice = store_use.end_attempt(outcome.exits);
      if (not_started_) co_return finish(RunResult::not_started, not_started_->message, {});
      const auto now = std::chrono::steady_clock::now();
      const auto decision = decide_after_attempt(outcome, history, now, settings_);
      if (decision.action == RestartDecision::Action::finish) {
        store_use_ = nullptr;
        co_return finish(decision.result, decision.reason + advice, outcome.exits);
      }
      history = decision.history;
      ++facts.attempt;
      ++facts.restart_count;
      tell(RestartDecided{
          .next_attempt = facts.attempt, .reason = decision.reason, .delay = decision.delay});
      store.new_attempt();
      co_await pause(decision.delay);
    }
  }

  asio::awaitable<AttemptOutcome> make_attempt(AttemptFacts facts) {
    AttemptOutcome outcome{.signal = stop_signal_};
    if (stop_signal_ != 0) co_return outcome;
    ++attempts_;
    tell(AttemptStarted{.attempt = facts.attempt,
                        .restarts_left = restarts_left(facts.attempt, settings_)});
    facts.have_workers_started = have_workers_started_;
    Attempt attempt(surroundings_, std::move(facts));
    current_ = &attempt;
    AttemptEnd end = co_await attempt.run();
    current_ = nullptr;
    if (end.have_workers_started) have_workers_started_ = true;
    outcome.exits = std::move(end.exits);
    flights_ = std::move(end.flights);
    not_started_ = std::move(end.not_started);
    outcome.still_running = std::move(end.still_running);
    outcome.signal = stop_signal_;
    co_return outcome;
  }

  asio::awaitable<void> pause(std::chrono::milliseconds delay) {
    if (stop_signal_ != 0) co_return;
    pause_.expires_after(delay);
    // A signal ends it.
    while (stop_signal_ == 0 && RunClock::now() < pause_.expiry()) {
      boost::system::error_code ignored;
      co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }

  RunFinished finish(RunResult result, const std::string& reason,
                     const std::vector<WorkerExited>& exits) {
    RunFinished finished{.result = result,
                         .attempts = attempts_,
                         .reason = reason,
                         .failures = failures_root_cause_first(exits),
                         .held_up = find_held_up(flights_)};
    finished.exit_code =
        exit_code_for(result, plan_.options.exit_code, finished.failures, stop_signal_);
    return finished;
  }

  void tell(const Event& event) { emit(surroundings_.events, event); }

  const AttemptSurroundings& surroundings_;
  const LaunchPlan& plan_;
  const RestartSettings settings_;
  RunTimer pause_;
  Attempt* current_ = nullptr;  ///< the attempt under way
  StoreUseWatch* store_use_ = nullptr;
  int attempts_ = 0;  ///< made, also if their workers could not be started
  bool have_workers_started_ = false;
  int stop_signal_ = 0;               ///< the first that stopped the run
  std::vector<RankFlights> flights_;  ///< of the last attempt, if it failed
  std::optional<WorkerNotStarted> not_started_;
};

LoneRun::LoneRun(const AttemptSurroundings& surroundings)
    : impl_(std::make_unique<Impl>(surroundings)) {}

LoneRun::~LoneRun() = default;

asio::awaitable<RunFinished> LoneRun::run(StartNotice on_start) {
  return impl_->run(std::move(on_start));
}

void LoneRun::forward(int signal) {
  impl_->forward(signal);
}

bool LoneRun::take_stacks(const std::string& reason) {
  return impl_->take_stacks(reason);
}

void LoneRun::stop(int signal, bool is_first) {
  impl_->stop(signal, is_first);
}

}  // namespace ddprun
