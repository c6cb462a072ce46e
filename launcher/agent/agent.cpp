#include "launcher/agent/agent.hpp"

#include "launcher/agent/failure_text.hpp"
#include "launcher/agent/restart_policy.hpp"
#include "launcher/agent/worker_specs.hpp"
#include "launcher/plan/log_layout.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/report/exit_code.hpp"
#include "rendezvous/store/store_server.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

// Far longer than a worker takes from its failure to its end, unless it has much to clean up.
constexpr auto kCulpritGrace = std::chrono::milliseconds(500);

constexpr int kForwardedSignals[] = {SIGUSR1, SIGUSR2};

bool is_forwarded(int signal) {
  return std::find(std::begin(kForwardedSignals), std::end(kForwardedSignals), signal) !=
         std::end(kForwardedSignals);
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
        signals_(executor_),
        guardian_(executor_),
        pause_(executor_),
        culprit_timer_(executor_) {
    for (const int signal : plan.signals_to_handle) {
      if (signal != SIGHUP || !is_hang_up_ignored()) signals_.add(signal);
    }
    for (const int signal : kForwardedSignals) {
      const auto& handled = plan.signals_to_handle;
      if (std::find(handled.begin(), handled.end(), signal) == handled.end()) signals_.add(signal);
    }
  }

  asio::awaitable<RunFinished> run() {
    watch_guardian();
    // Signals are watched for as long as attempts are made; the group joins both before it goes on.
    auto attempts = asio::co_spawn(executor_, make_attempts(), asio::deferred);
    auto watch = asio::co_spawn(executor_, watch_signals(), asio::deferred);
    auto both = asio::experimental::make_parallel_group(std::move(attempts), std::move(watch));
    auto ended = co_await both.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    const std::exception_ptr& failure = std::get<1>(ended);
    if (failure && !is_started_) std::rethrow_exception(failure);
    const RunFinished finished =
        failure ? finish(RunResult::agent_failed, failure_text(failure), {}) : std::get<2>(ended);
    emit(finished);
    co_return finished;
  }

 private:
  asio::awaitable<RunFinished> make_attempts() {
    StoreServer store(
        executor_, {.address = plan_.store_host, .port = plan_.store_port, .log = warning_log()});
    store.start();
    is_started_ = true;
    emit(RunStarted{.run_id = plan_.run_id,
                    .program = plan_.program,
                    .local_world_size = static_cast<int>(plan_.workers.size()),
                    .store = plan_.store_host + ":" + std::to_string(store.endpoint().port),
                    .log_folder = folder_.is_kept() ? folder_.path() : std::filesystem::path()});
    for (const auto& note : plan_.notes) emit(Note{note});
    AttemptFacts facts{.store_port = store.endpoint().port};
    int fast_failures = 0;
    while (true) {
      AttemptOutcome outcome = co_await make_attempt(facts);
      if (not_started_) co_return finish(RunResult::not_started, not_started_->message, {});
      outcome.fast_failures_before = fast_failures;
      const auto decision = decide_after_attempt(outcome, {.max_restarts = plan_.max_restarts});
      if (decision.action == RestartDecision::Action::finish) {
        co_return finish(decision.result, decision.reason, outcome.exits);
      }
      fast_failures = decision.fast_failures;
      ++facts.attempt;
      emit(RestartDecided{
          .next_attempt = facts.attempt, .reason = decision.reason, .delay = decision.delay});
      store.new_attempt();
      co_await pause(decision.delay);
    }
  }

  /// One life of the workers: start, watch, stop them all when one fails, sweep up what they left.
  asio::awaitable<AttemptOutcome> make_attempt(AttemptFacts facts) {
    AttemptOutcome outcome{.attempt = facts.attempt, .was_interrupted = stop_signal_ != 0};
    if (outcome.was_interrupted) co_return outcome;
    ++attempts_;
    emit(AttemptStarted{.attempt = facts.attempt,
                        .restarts_left = plan_.max_restarts - facts.attempt});
    auto page = control::ControlPage::create(static_cast<int>(plan_.workers.size()));
    facts.control_page_fd = page.fd();
    for (const auto& worker : plan_.workers) {
      facts.worker_folders.push_back(folder_.make_worker_folder(facts.attempt, worker.local_rank));
    }
    WorkerGroup group(executor_, facts.attempt, containment_, router_, std::move(page),
                      warning_log());
    const auto started = group.start(make_worker_specs(plan_, facts));
    if (const auto* failure = std::get_if<WorkerNotStarted>(&started)) {
      emit(*failure);
      not_started_ = *failure;
    } else {
      for (const auto& worker : std::get<0>(started)) emit(worker);
    }
    current_ = {.attempt = facts.attempt, .group = &group};
    co_await watch_workers(group, outcome);
    const auto strays = co_await group.sweep();
    current_.group = nullptr;
    folder_.end_attempt(facts.attempt);
    if (!strays.empty()) {
      emit(Warning{std::to_string(strays.size()) +
                   " processes that the workers had left running were killed"});
    }
    outcome.was_interrupted = stop_signal_ != 0;
    co_return outcome;
  }

  /// Until nothing is left of the group. The exits come out in the order in which the deaths were
  /// noticed.
  asio::awaitable<void> watch_workers(WorkerGroup& group, AttemptOutcome& outcome) {
    std::map<int, std::size_t> notice;  // rank -> position
    while (true) {
      const WorkerNews news = co_await group.next();
      if (std::holds_alternative<NothingLeft>(news)) break;
      if (const auto* dying = std::get_if<WorkerDying>(&news)) {
        notice.emplace(dying->rank, notice.size());
        emit(*dying);
        react_to_failure(group, dying->rank, dying->error_message,
                         "rank " + std::to_string(dying->rank) + " is dying");
      } else if (const auto* exited = std::get_if<WorkerExited>(&news)) {
        WorkerExited exit = *exited;
        notice.emplace(exit.rank, notice.size());
        if (folder_.is_kept()) {
          exit.log_folder = worker_folder(folder_.path(), exit.attempt, exit.local_rank);
        }
        outcome.exits.push_back(exit);
        emit(exit);
        if (exit.failed() && !exit.was_stopped) {
          react_to_failure(group, exit.rank, exit.error_message, describe_failure(exit));
        }
      } else if (const auto* killed = std::get_if<WorkersKilled>(&news)) {
        emit(*killed);
      }
    }
    culprit_timer_.cancel();
    std::sort(outcome.exits.begin(), outcome.exits.end(),
              [&](const WorkerExited& a, const WorkerExited& b) {
                return notice.at(a.rank) < notice.at(b.rank);
              });
  }

  /// A worker that failed because a peer did may be noticed before that peer, which is still on its
  /// way out: stopped now it could not say why. So it is given a moment.
  void react_to_failure(WorkerGroup& group, int rank, const std::string& error_message,
                        const std::string& reason) {
    if (!blames_a_peer(error_message)) return stop_survivors(group, rank, reason);
    if (current_.is_stopping || std::exchange(current_.awaits_culprit, true)) return;
    culprit_timer_.expires_after(kCulpritGrace);
    culprit_timer_.async_wait([this, rank, reason](boost::system::error_code error) {
      if (!error && current_.group != nullptr) stop_survivors(*current_.group, rank, reason);
    });
  }

  /// The group fails as a unit: what still runs is asked to stop, once.
  void stop_survivors(WorkerGroup& group, int culprit, const std::string& reason) {
    if (current_.is_stopping) return;
    current_.is_stopping = true;
    group.abort(culprit, reason);
    auto ranks = group.running();
    // A dying culprit, too, has only so much time to end.
    const bool is_nobody_left = ranks.empty();
    std::erase(ranks, culprit);
    if (!ranks.empty()) {
      emit(WorkersStopping{.attempt = current_.attempt, .reason = reason, .ranks = ranks});
    }
    if (is_nobody_left) return;
    group.stop(SIGTERM, plan_.shutdown_timeout);
  }

  /// The agent has threads by then and cannot fork another one, so it tells what is lost.
  void watch_guardian() {
    const auto pid = containment_.guardian_pid();
    const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0) return;
    boost::system::error_code not_watched;
    guardian_.assign(pidfd, not_watched);
    if (not_watched) {
      ::close(pidfd);
      return;
    }
    guardian_.async_wait(asio::posix::descriptor_base::wait_read,
                         [this, pid](boost::system::error_code error) {
                           if (error) return;
                           emit(Warning{"the guardian (pid " + std::to_string(pid) +
                                        ") was killed: if ddprun is killed too, processes that "
                                        "the workers have started may go on"});
                         });
  }

  asio::awaitable<void> watch_signals() {
    while (true) {
      const int signal = co_await signals_.async_wait(asio::use_awaitable);
      if (is_forwarded(signal) &&
          !std::count(plan_.signals_to_handle.begin(), plan_.signals_to_handle.end(), signal)) {
        emit(SignalReceived{.signal = signal, .action = "forwarded to the workers"});
        if (current_.group != nullptr) current_.group->forward(signal);
        continue;
      }
      handle_stop_signal(signal);
    }
  }

  /// The first one stops the workers in an orderly way, the second kills them.
  void handle_stop_signal(int signal) {
    const bool is_first = stop_signal_ == 0;
    emit(SignalReceived{.signal = signal,
                        .action = is_first ? "stopping the workers; again to kill them at once"
                                           : "killing the workers"});
    if (is_first) stop_signal_ = signal;
    pause_.cancel();
    if (current_.group == nullptr) return;
    current_.is_stopping = true;
    if (is_first) {
      current_.group->stop(signal, plan_.shutdown_timeout);
    } else {
      current_.group->stop(SIGKILL, std::chrono::milliseconds(0));
    }
  }

  asio::awaitable<void> pause(std::chrono::milliseconds delay) {
    if (stop_signal_ != 0) co_return;
    pause_.expires_after(delay);
    boost::system::error_code ended_by_signal;
    co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, ended_by_signal));
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

  void emit(const Event& event) { events_.take(event, std::chrono::system_clock::now()); }

  /// For the parts that speak of themselves; what they say below a warning is not for operators.
  Log warning_log() {
    return [this](LogLevel level, std::string_view line) {
      if (level >= LogLevel::warn) emit(Warning{std::string(line)});
    };
  }

  asio::any_io_executor executor_;
  const LaunchPlan& plan_;
  const RunFolder& folder_;
  Containment& containment_;
  OutputRouter& router_;
  EventSink& events_;
  asio::signal_set signals_;
  asio::posix::stream_descriptor guardian_;  ///< a pidfd
  asio::steady_timer pause_;
  asio::steady_timer culprit_timer_;

  /// The attempt under way, for what comes from outside of its coroutine.
  struct Current {
    int attempt = 0;
    WorkerGroup* group = nullptr;
    bool awaits_culprit = false;
    bool is_stopping = false;
  };
  Current current_;
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
