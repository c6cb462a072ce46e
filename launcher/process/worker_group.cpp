#include "launcher/process/worker_group.hpp"

#include "launcher/process/death_watch.hpp"
#include "launcher/process/error_file.hpp"
#include "launcher/process/exit_facts.hpp"
#include "launcher/process/group_stacks.hpp"
#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/stop_sequence.hpp"
#include "launcher/process/sweep.hpp"
#include "launcher/process/worker.hpp"
#include "launcher/process/worker_starter.hpp"
#include "rendezvous/base/async_condition.hpp"
#include "rendezvous/control/flight_recorder.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <csignal>
#include <deque>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// The output of a worker without descendants ends with it; after this time its death is reported
// although the output has not ended.
constexpr auto kOutputGrace = 20ms;
// Maximum time for descendants of a dead worker to write output.
constexpr auto kOutputLimit = 1s;
// Maximum time that the destructor waits for killed workers.
constexpr auto kCloseLimit = 1s;

void add_once(std::vector<int>& signals, int signal) {
  if (std::find(signals.begin(), signals.end(), signal) == signals.end()) signals.push_back(signal);
}

}  // namespace

class WorkerGroup::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, int attempt, Containment& containment, OutputRouter& router,
       control::ControlPage page, Log log, const StackPlan& stacks, KilledLimits limits,
       PreloadedPython* python);

  asio::awaitable<StartResult> start(std::vector<WorkerSpec> specs, StartRetry& retry);
  asio::awaitable<WorkerEvent> next();
  void forward(int signal);
  void stop(int signal, std::chrono::milliseconds grace);
  std::vector<int> running() const;
  std::vector<RankFlights> flights();
  std::vector<WorkerSample> sample(bool with_details) const;
  void set_hung(int rank, const std::string& doing);
  bool take_stacks(const std::string& reason, StackScope scope);
  void set_first_stacks(StackScope scope) { stop_.set_first_stacks(std::move(scope)); }
  void abort(int rank, const std::string& reason);
  asio::awaitable<Swept> sweep();

  /// Kills the workers at once; next() returns nothing afterwards.
  void close();

 private:
  std::optional<FailedWorker> start_death_watch();
  std::vector<WorkerStarted> finish_start();
  void watch_all();
  static asio::awaitable<void> watch(std::shared_ptr<Impl> self, std::shared_ptr<Worker> worker);
  static asio::awaitable<bool> read_to_end(std::shared_ptr<Worker> worker, Deadline deadline);
  void end_watch();
  WorkerExited exit_of(const Worker& worker, const ProcessExit& exit) const;
  void note_death(Worker& worker, const std::optional<std::string>& damage = {});
  void kill_damaged(Worker& worker, const std::string& damage);
  void note_group_change();
  void reap_orphans();
  void push(WorkerEvent event);

  void carry_out(StopSequence::Steps steps);
  void carry_out(StopSequence::TakeStacks step);
  void carry_out(StopSequence::Signal step);
  void carry_out(StopSequence::Kill step);
  void carry_out(StopSequence::Warn);
  void carry_out(StopSequence::Abandon);
  bool is_exiting(const Worker& worker) const;
  void continue_if_stopped(Worker& worker);
  void signal_all(int signal);
  void check_remaining();

  asio::any_io_executor executor_;
  int attempt_;
  Containment& containment_;
  control::ControlPage page_;
  Log log_;
  OutOfMemoryWatch out_of_memory_;
  Workers workers_;
  WorkerStarter starter_;
  bool is_starting_ = false;
  std::vector<int> forwarded_;      ///< signals, each once
  std::vector<int> held_signals_;   ///< to be forwarded when all workers are started, each once
  int open_watches_ = 0;            ///< watched workers, plus one while stacks are taken
  std::deque<WorkerEvent> events_;  ///< three for each worker, two more, and stacks on demand
  AsyncCondition event_;            ///< for next()
  GroupStacks stacks_;
  StopSequence stop_;
  LimitTimer stop_timer_;
  std::optional<control::AbortRecord> delayed_abort_;
  std::exception_ptr failure_;    ///< of a watch; thrown by next()
  std::vector<pid_t> abandoned_;  ///< killed workers that have not ended
  asio::signal_set orphans_;
  std::optional<DeathWatch> death_watch_;
  Sweep sweep_;
};

WorkerGroup::Impl::Impl(asio::any_io_executor executor, int attempt, Containment& containment,
                        OutputRouter& router, control::ControlPage page, Log log,
                        const StackPlan& stacks, KilledLimits limits, PreloadedPython* python)
    : executor_(std::move(executor)),
      attempt_(attempt),
      containment_(containment),
      page_(std::move(page)),
      log_(std::move(log)),
      starter_(executor_, containment, router, python, page_.fd(), workers_),
      event_(executor_),
      stacks_(executor_, attempt, containment, page_, workers_, stacks,
              {.on_captured = [this](StacksCaptured captured) { push(std::move(captured)); },
               .on_idle = [this] { end_watch(); }},
              log_),
      stop_(stacks.when, limits),
      stop_timer_(executor_),
      orphans_(executor_),
      sweep_(executor_, containment_, limits, log_) {}

asio::awaitable<WorkerGroup::StartResult> WorkerGroup::Impl::start(std::vector<WorkerSpec> specs,
                                                                   StartRetry& retry) {
  using Action = StartDecision::Action;
  const auto self = shared_from_this();
  const auto must_end = [this, &retry] { return stop_.has_signalled() || retry.has_ended(); };
  is_starting_ = true;
  std::deque<WorkerSpec> missing(std::make_move_iterator(specs.begin()),
                                 std::make_move_iterator(specs.end()));
  std::optional<FailedWorker> failed;
  auto action = Action::retry;
  do {
    // Started workers keep running while the others are retried: workers of other nodes may already
    // be connected to them.
    auto starting = starter_.start(missing, must_end);
    failed = co_await std::move(starting);
    if (!failed) failed = start_death_watch();
    if (!failed) break;
    auto deciding = retry.after(failed->failure, failed->rank, failed->message);
    action = co_await std::move(deciding);
  } while (action == Action::retry && !must_end());
  is_starting_ = false;
  if (failed && action != Action::retry) {
    auto killing = starter_.kill_all();
    co_await std::move(killing);
    close();
    co_return WorkerNotStarted{.attempt = attempt_,
                               .rank = failed->rank,
                               .step = to_string(failed->failure.step),
                               .message = failed->message,
                               .ends_the_run = action == Action::end_run};
  }
  co_return finish_start();
}

std::optional<FailedWorker> WorkerGroup::Impl::start_death_watch() {
  if (workers_.empty()) return std::nullopt;
  std::vector<pid_t> pids(static_cast<std::size_t>(page_.local_world_size()), 0);
  for (const auto& worker : workers_)
    pids.at(static_cast<std::size_t>(worker->spec.local_rank)) = worker->process.pid();
  const auto on_agents_thread = [weak = weak_from_this(), executor = executor_](auto what) {
    asio::post(executor, [weak, what] {
      if (const auto self = weak.lock()) what(*self);
    });
  };
  try {
    death_watch_.emplace(
        page_, std::move(pids),
        [on_agents_thread](int local_rank, const std::optional<std::string>& damage) {
          on_agents_thread([local_rank, damage](Impl& self) {
            for (auto& worker : self.workers_) {
              if (worker->spec.local_rank == local_rank && !worker->has_ended)
                self.note_death(*worker, damage);
            }
          });
        },
        [on_agents_thread] { on_agents_thread([](Impl& self) { self.note_group_change(); }); });
  } catch (const std::system_error& error) {
    return failed_worker(workers_.front()->spec,
                         {.step = StartStep::thread, .error_number = error.code().value()});
  }
  return std::nullopt;
}

std::vector<WorkerStarted> WorkerGroup::Impl::finish_start() {
  // Workers that needed several tries come after the others.
  std::sort(workers_.begin(), workers_.end(),
            [](const auto& a, const auto& b) { return a->spec.local_rank < b->spec.local_rank; });
  watch_all();
  for (const int signal : std::exchange(held_signals_, {})) signal_all(signal);
  for (auto& worker : workers_)
    if (worker->early_signal != 0) worker->process.signal_group(worker->early_signal);
  std::vector<WorkerStarted> started;
  for (const auto& worker : workers_) {
    started.push_back(
        {.attempt = attempt_, .rank = worker->spec.rank, .pid = worker->process.pid()});
  }
  return started;
}

void WorkerGroup::Impl::watch_all() {
  for (auto& worker : workers_) {
    ++open_watches_;
    auto watching = watch(shared_from_this(), worker);
    // Joined by next(): AllExited follows the last one.
    asio::co_spawn(executor_, std::move(watching),
                   [self = shared_from_this()](const std::exception_ptr& failure) {
                     if (!self->failure_) self->failure_ = failure;
                     if (failure) self->event_.notify_all();
                   });
  }
  if (containment_.is_parent_of_orphans() && !workers_.empty()) {
    orphans_.add(SIGCHLD);
    reap_orphans();
  }
}

/// Static, with everything in its frame by value, since it may outlive the group.
asio::awaitable<void> WorkerGroup::Impl::watch(std::shared_ptr<Impl> self,
                                               std::shared_ptr<Worker> worker) {
  try {
    co_await worker->process.wait_for_end();
  } catch (const Error&) {
    co_return;  // the group has been destroyed
  }
  if (worker->has_ended) co_return;  // abandoned
  // The attempt is over, and a child that keeps the output open would delay the next one. Not
  // SIGKILL, since some children clean up after the worker.
  if (!worker->was_stopped) worker->process.end_group_if_killed();
  const ProcessExit exit = worker->process.reap();
  worker->has_ended = true;
  self->check_remaining();
  WorkerExited exited = self->exit_of(*worker, exit);
  const bool is_complete = co_await read_to_end(worker, Deadline::after(kOutputGrace));
  if (!is_complete) {
    if (exited.failed()) self->note_death(*worker);
    co_await read_to_end(worker, Deadline::after(kOutputLimit));
  }
  worker->standard_output->finish();
  worker->standard_error->finish();
  if (exited.failed()) {
    exited.last_lines = worker->standard_error->last_lines();
    // SIGKILL, or SIGABRT if its stacks have ended it.
    if (worker->hang && exit.signal != 0) exited.hung = *worker->hang;
    add_exit_facts(exited, exit, worker->spec, self->out_of_memory_);
    if (exited.error_message.empty()) exited.error_message = worker->damage_text(exit);
  }
  self->push(std::move(exited));
  self->end_watch();
}

asio::awaitable<bool> WorkerGroup::Impl::read_to_end(std::shared_ptr<Worker> worker,
                                                     Deadline deadline) {
  const bool out = co_await worker->standard_output->wait_for_end(deadline);
  const bool error = co_await worker->standard_error->wait_for_end(deadline);
  co_return out&& error;
}

void WorkerGroup::Impl::end_watch() {
  if (--open_watches_ > 0) return;
  stop_timer_.cancel();
  orphans_.cancel();
  death_watch_.reset();
  event_.notify_all();
}

WorkerExited WorkerGroup::Impl::exit_of(const Worker& worker, const ProcessExit& exit) const {
  WorkerExited exited = worker.exited(exit);
  exited.attempt = attempt_;
  exited.was_forwarded =
      std::find(forwarded_.begin(), forwarded_.end(), exit.signal) != forwarded_.end();
  return exited;
}

/// A worker that overwrites its slot of the page may have overwritten any memory.
void WorkerGroup::Impl::kill_damaged(Worker& worker, const std::string& damage) {
  if (worker.has_ended || worker.damage) return;
  worker.damage = damage;
  worker.process.signal_group(SIGKILL);
}

void WorkerGroup::Impl::note_death(Worker& worker, const std::optional<std::string>& damage) {
  if (damage) kill_damaged(worker, *damage);
  if (worker.was_stopped || std::exchange(worker.is_death_noticed, true)) return;
  auto report = read_error_report(worker.spec.error_file);
  push(WorkerDying{.attempt = attempt_,
                   .rank = worker.spec.rank,
                   .after_start_seconds = worker.seconds_since_start(),
                   .error_message = std::move(report.message),
                   .error_code = report.code});
}

/// Does nothing while one is pending.
void WorkerGroup::Impl::note_group_change() {
  const bool has_one_ended =
      std::any_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->has_ended; });
  const bool is_pending = std::any_of(events_.begin(), events_.end(), [](const WorkerEvent& event) {
    return std::holds_alternative<GroupsChanged>(event);
  });
  if (has_one_ended && !is_pending) push(GroupsChanged{});
}

void WorkerGroup::Impl::reap_orphans() {
  orphans_.async_wait([weak = weak_from_this()](boost::system::error_code error, int) {
    const auto self = weak.lock();
    if (error || !self) return;
    std::vector<pid_t> own = self->stacks_.tools();
    for (const auto& worker : self->workers_) {
      if (!worker->has_ended) own.push_back(worker->process.pid());
    }
    self->containment_.reap_orphans(own);
    self->reap_orphans();
  });
}

asio::awaitable<WorkerEvent> WorkerGroup::Impl::next() {
  const auto self = shared_from_this();
  while (true) {
    if (failure_) std::rethrow_exception(failure_);
    if (!events_.empty()) {
      WorkerEvent event = std::move(events_.front());
      events_.pop_front();
      co_return event;
    }
    if (open_watches_ == 0) co_return AllExited{};
    co_await event_.wait();
  }
}

void WorkerGroup::Impl::push(WorkerEvent event) {
  events_.push_back(std::move(event));
  event_.notify_all();
}

std::vector<int> WorkerGroup::Impl::running() const {
  std::vector<int> ranks;
  for (const auto& worker : workers_) {
    if (!worker->has_ended) ranks.push_back(worker->spec.rank);
  }
  return ranks;
}

std::vector<RankFlights> WorkerGroup::Impl::flights() {
  const auto now = control::FlightRecorder::Clock::now();
  std::vector<RankFlights> ranks;
  for (const auto& worker : workers_) {
    auto flights = control::read_flights(page_, worker->spec.local_rank, now);
    if (flights.damage) kill_damaged(*worker, *flights.damage);
    ranks.push_back({worker->spec.rank, std::move(flights)});
  }
  const auto has_none = [](const RankFlights& rank) { return rank.worker.groups.empty(); };
  if (std::all_of(ranks.begin(), ranks.end(), has_none)) ranks.clear();
  return ranks;
}

std::vector<WorkerSample> WorkerGroup::Impl::sample(bool with_details) const {
  std::vector<WorkerSample> samples;
  for (const auto& worker : workers_) {
    if (worker->has_ended) continue;
    samples.push_back(sample_of(*worker, page_, with_details));
    samples.back().inspections = stacks_.changes();
  }
  return samples;
}

void WorkerGroup::Impl::set_hung(int rank, const std::string& doing) {
  for (auto& worker : workers_)
    if (worker->spec.rank == rank) worker->hang = doing;
}

bool WorkerGroup::Impl::take_stacks(const std::string& reason, StackScope scope) {
  if (is_starting_) return false;  // no stacks before exec
  if (!stacks_.is_busy()) ++open_watches_;
  return stacks_.take(shared_from_this(), {.reason = reason, .scope = std::move(scope)});
}

void WorkerGroup::Impl::forward(int signal) {
  add_once(forwarded_, signal);
  if (is_starting_) return add_once(held_signals_, signal);  // no handler before exec
  signal_all(signal);
}

void WorkerGroup::Impl::signal_all(int signal) {
  for (auto& worker : workers_)
    if (!worker->has_ended)
      signal == SIGKILL ? worker->kill() : worker->process.signal_group(signal);
}

bool WorkerGroup::Impl::is_exiting(const Worker& worker) const {
  return worker.is_death_noticed ||
         page_.phase(worker.spec.local_rank) == control::WorkerPhase::exiting ||
         process_state(worker.process.pid()).is_exiting();
}

/// A worker that is exiting needs no signal, and its status shows how it ended; only a stopped one
/// is continued. SIGCONT would also cancel the SIGSTOP of a debugger or leak checker, which would
/// then wait for ever.
void WorkerGroup::Impl::continue_if_stopped(Worker& worker) {
  const pid_t announced = page_.pid(worker.spec.local_rank);
  for (const pid_t pid : {worker.process.pid(), announced}) {
    if (pid > 0 && process_state(pid).letter == 'T') return worker.process.signal_group(SIGCONT);
  }
}

void WorkerGroup::Impl::abort(int rank, const std::string& reason) {
  const control::AbortRecord record{.rank = rank, .reason = reason};
  if (is_starting_) starter_.interrupt();
  // An abort wakes stalled workers, whose stacks would then not show where they waited.
  if (!stop_.expects_stacks_before_signal()) return page_.abort(record);
  if (!delayed_abort_) delayed_abort_ = record;
}

void WorkerGroup::Impl::stop(int signal, std::chrono::milliseconds grace) {
  starter_.interrupt();
  sweep_.end_wait();
  carry_out(stop_.request(RunClock::now(), signal, grace));
}

void WorkerGroup::Impl::carry_out(StopSequence::Steps steps) {
  if (const auto deadline = stop_.deadline()) {
    stop_timer_.start(*deadline, [weak = weak_from_this()] {
      if (const auto self = weak.lock())
        self->carry_out(self->stop_.advance(
            RunClock::now(), all_remaining(self->workers_, &Worker::is_stuck_in_kernel)));
    });
  }
  for (auto& step : steps) {
    std::visit([this](auto& what) { carry_out(std::move(what)); }, step);
  }
}

void WorkerGroup::Impl::carry_out(StopSequence::TakeStacks step) {
  const auto then = [this] { carry_out(stop_.stacks_taken(RunClock::now())); };
  if (is_starting_) return then();  // no stacks before exec
  if (!stacks_.is_busy()) ++open_watches_;
  stacks_.take_last(shared_from_this(), std::move(step.moment), then);
}

void WorkerGroup::Impl::carry_out(StopSequence::Signal step) {
  if (delayed_abort_) page_.abort(*std::exchange(delayed_abort_, std::nullopt));
  for (auto& worker : workers_) {
    if (worker->has_ended) continue;
    if (is_exiting(*worker)) {
      continue_if_stopped(*worker);
      continue;
    }
    worker->was_stopped = !worker->hang && !worker->damage && !worker->has_recorded_error();
    if (worker->process.exec_notice() >= 0) worker->early_signal = step.signal;
    worker->hang ? worker->kill() : worker->process.signal_group(step.signal);
    // After the signal, so that a stopped worker handles it first.
    worker->process.signal_group(SIGCONT);
  }
  check_remaining();
}

void WorkerGroup::Impl::carry_out(StopSequence::Kill step) {
  const auto ranks = running();
  if (ranks.empty()) return;
  // All at once, so that no worker detects the death of another.
  containment_.kill();
  stacks_.close();
  if (is_starting_)
    add_once(held_signals_, SIGKILL);  // a fork of Python gets none before its parent
  signal_all(SIGKILL);
  push(WorkersKilled{.attempt = attempt_, .reason = std::move(step.reason), .ranks = ranks});
}

void WorkerGroup::Impl::carry_out(StopSequence::Warn) {
  for (const auto& worker : workers_) {
    if (!worker->has_ended) write_log(log_, LogLevel::warn, worker->warning());
  }
}

void WorkerGroup::Impl::carry_out(StopSequence::Abandon) {
  for (auto& worker : workers_) {
    if (std::exchange(worker->has_ended, true)) continue;
    abandoned_.push_back(worker->process.pid());
    auto exited = exit_of(*worker, {.exit_code = kUnknownExitCode});
    exited.still_running = worker->still_running();
    push(std::move(exited));
    end_watch();
  }
}

/// A stop waits for workers that handle the signal, not for killed ones.
void WorkerGroup::Impl::check_remaining() {
  if (running().empty() || !all_remaining(workers_, &Worker::is_killed)) return;
  stop_.only_killed_left(RunClock::now());
  carry_out(StopSequence::Steps());
}

asio::awaitable<Swept> WorkerGroup::Impl::sweep() {
  const auto self = shared_from_this();
  auto sweeping = sweep_.run(abandoned_, has_any_hung(workers_));
  co_return co_await std::move(sweeping);
}

void WorkerGroup::Impl::close() {
  death_watch_.reset();
  stop_timer_.cancel();
  orphans_.cancel();
  event_.notify_all();
  stop_.close();
  starter_.close();
  stacks_.close();
  signal_all(SIGKILL);  // all are killed before the first is waited for
  const auto deadline = Deadline::after(kCloseLimit);
  for (auto& worker : workers_) {
    // An abandoned worker has already been waited for.
    worker->process.close(worker->has_ended ? Deadline::after({}) : deadline);
    worker->standard_output->close();
    worker->standard_error->close();
  }
  workers_.clear();
}

WorkerGroup::WorkerGroup(asio::any_io_executor executor, int attempt, Containment& containment,
                         OutputRouter& router, control::ControlPage page, Log log,
                         const StackPlan& stacks, KilledLimits limits, PreloadedPython* python)
    : impl_(std::make_shared<Impl>(std::move(executor), attempt, containment, router,
                                   std::move(page), std::move(log), stacks, limits, python)) {}

WorkerGroup::~WorkerGroup() {
  impl_->close();
}

asio::awaitable<WorkerGroup::StartResult> WorkerGroup::start(std::vector<WorkerSpec> workers,
                                                             StartRetry& retry) {
  return impl_->start(std::move(workers), retry);
}

asio::awaitable<WorkerEvent> WorkerGroup::next() {
  return impl_->next();
}

void WorkerGroup::forward(int signal) {
  impl_->forward(signal);
}

void WorkerGroup::stop(int signal, std::chrono::milliseconds grace) {
  impl_->stop(signal, grace);
}

std::vector<int> WorkerGroup::running() const {
  return impl_->running();
}

std::vector<RankFlights> WorkerGroup::flights() {
  return impl_->flights();
}

std::vector<WorkerSample> WorkerGroup::sample(bool with_details) const {
  return impl_->sample(with_details);
}

void WorkerGroup::set_hung(int rank, const std::string& doing) {
  impl_->set_hung(rank, doing);
}

bool WorkerGroup::take_stacks(const std::string& reason, StackScope scope) {
  return impl_->take_stacks(reason, std::move(scope));
}

void WorkerGroup::set_first_stacks(StackScope scope) {
  impl_->set_first_stacks(std::move(scope));
}

void WorkerGroup::abort(int rank, const std::string& reason) {
  impl_->abort(rank, reason);
}

asio::awaitable<Swept> WorkerGroup::sweep() {
  return impl_->sweep();
}

}  // namespace ddprun
