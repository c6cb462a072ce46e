#include "launcher/agent/agent.hpp"

#include "launcher/agent/attempt.hpp"
#include "launcher/agent/emit.hpp"
#include "launcher/agent/guardian_watch.hpp"
#include "launcher/agent/job_control.hpp"
#include "launcher/agent/placement.hpp"
#include "launcher/agent/run.hpp"
#include "launcher/process/preloaded_python.hpp"
#include "launcher/process/stop_requests.hpp"
#include "launcher/report/event_text.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/signal_name.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <memory>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// Signals with a special meaning, unless the plan uses them to stop the run.
const std::vector<int>& other_signals() {
  static const std::vector<int> signals = {SIGUSR1, SIGUSR2, SIGQUIT, SIGRTMIN};
  return signals;
}

/// Ctrl-\ in a terminal, and a signal that other launchers do not use.
bool asks_for_stacks(int signal) {
  return signal == SIGQUIT || signal == SIGRTMIN;
}

/// nohup ignores SIGHUP so that the run survives its terminal.
bool is_sighup_ignored() {
  struct sigaction action {};
  return ::sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Returns null unless the plan preloads modules.
std::unique_ptr<PreloadedPython> make_python(const asio::any_io_executor& executor,
                                             const LaunchPlan& plan, Containment& containment,
                                             OutputRouter& router, EventSink& events) {
  if (!plan.preload) return nullptr;
  return std::make_unique<PreloadedPython>(executor, containment, router, *plan.preload,
                                           messages_to(events));
}

}  // namespace

class Agent::Impl {
 public:
  Impl(asio::any_io_executor executor, const LaunchPlan& plan, RunFolder& folder,
       Containment& containment, OutputRouter& router, EventSink& events)
      : executor_(std::move(executor)),
        plan_(plan),
        folder_(folder),
        containment_(containment),
        router_(router),
        events_(events),
        python_(make_python(executor_, plan, containment, router, events)),
        context_{executor_, plan, folder, containment, router, events, python_.get()},
        run_(context_),
        signals_(executor_),
        guardian_watch_(executor_, containment, events) {
    for (const int signal : plan.options.signals_to_handle) {
      if (signal != SIGHUP || !is_sighup_ignored()) signals_.add(signal);
    }
    for (const int signal : other_signals()) {
      if (!is_handled(signal)) signals_.add(signal);
    }
    if (!is_handled(SIGTSTP) && can_be_suspended()) signals_.add(SIGTSTP);
  }

  asio::awaitable<RunFinished> run() {
    guardian_watch_.start();
    // Signals are handled during the whole run; the group waits for both coroutines.
    auto start_notice = [this](std::uint16_t port) { report_start(port); };
    auto end = asio::co_spawn(executor_, run_.run(std::move(start_notice)), asio::deferred);
    auto watch = asio::co_spawn(executor_, watch_signals(), asio::deferred);
    auto both = asio::experimental::make_parallel_group(std::move(end), std::move(watch));
    auto ended = co_await both.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    if (const std::exception_ptr& failure = std::get<1>(ended)) std::rethrow_exception(failure);
    const RunFinished finished = std::get<2>(ended);
    report(finished);
    co_return finished;
  }

 private:
  void report_start(std::uint16_t port) {
    report(RunStarted{.run_id = plan_.run_id,
                      .program = plan_.options.program,
                      .local_world_size = static_cast<int>(plan_.workers.size()),
                      .store = store_text(plan_, port),
                      .log_folder = folder_.is_kept() && has_stream_files(plan_)
                                        ? folder_.path()
                                        : std::filesystem::path(),
                      .has_to_meet = plan_.nodes.has_value()});
    for (const auto& note : plan_.notes) report(Note{note});
    for (const auto& warning : plan_.warnings) report(Warning{warning});
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
        report(SignalReceived{.signal = signal, .action = "forwarded to the workers"});
        run_.forward(signal);
      }
    }
  }

  void take_stacks(int signal) {
    const bool has_workers = run_.take_stacks("asked for by " + signal_name(signal));
    report(SignalReceived{.signal = signal,
                          .action = has_workers
                                        ? "taking the stacks of the workers"
                                        : "no workers are running, so no stacks are taken"});
  }

  bool is_handled(int signal) const {
    const auto& handled = plan_.options.signals_to_handle;
    return std::find(handled.begin(), handled.end(), signal) != handled.end();
  }

  void suspend_run() {
    if (const auto objection = run_.objection_to_suspension()) {
      return report(SignalReceived{.signal = SIGTSTP, .action = "not suspended: " + *objection});
    }
    report(SignalReceived{.signal = SIGTSTP, .action = "suspending the workers until SIGCONT"});
    signals_.remove(SIGTSTP);
    const auto duration = suspend(containment_, router_);
    signals_.add(SIGTSTP);
    report(Note{"the workers continue after " +
                std::to_string(std::chrono::round<std::chrono::seconds>(duration).count()) + " s"});
  }

  /// The first signal stops the workers in an orderly way, the second one kills them.
  void handle_stop_signal(int signal) {
    switch (stop_requests_.take(signal, StopRequests::Clock::now())) {
      case StopRequests::Meaning::stop:
        report(SignalReceived{
            .signal = signal,
            .action = !run_.has_workers() ? "leaving the run"
                                          : describe_stop(plan_.options.shutdown_timeout,
                                                          signal == SIGINT ? std::chrono::seconds(0)
                                                                           : kOneStopRequest)});
        return run_.stop(signal, true);
      case StopRequests::Meaning::repeated:
        if (std::exchange(is_repetition_reported_, true)) return;
        return report(SignalReceived{.signal = signal, .action = "already stopping the workers"});
      case StopRequests::Meaning::kill:
        report(SignalReceived{.signal = signal, .action = "killing the remaining workers"});
        return run_.stop(signal, false);
    }
  }

  void report(const Event& event) { emit(events_, event); }

  asio::any_io_executor executor_;
  const LaunchPlan& plan_;
  RunFolder& folder_;
  Containment& containment_;
  OutputRouter& router_;
  EventSink& events_;
  std::unique_ptr<PreloadedPython> python_;
  const AttemptContext context_;
  Run run_;
  asio::signal_set signals_;
  GuardianWatch guardian_watch_;
  StopRequests stop_requests_;
  bool is_repetition_reported_ = false;
};

Agent::Agent(asio::any_io_executor executor, const LaunchPlan& plan, RunFolder& folder,
             Containment& containment, OutputRouter& router, EventSink& events)
    : impl_(
          std::make_unique<Impl>(std::move(executor), plan, folder, containment, router, events)) {}

Agent::~Agent() = default;

asio::awaitable<RunFinished> Agent::run() {
  return impl_->run();
}

}  // namespace ddprun
