#include "launcher/process/worker_group.hpp"

#include "launcher/process/error_file.hpp"
#include "launcher/process/worker_group_impl.hpp"
#include "rendezvous/control/flight_recorder.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// The output of a worker without descendants ends with it; after this long its death is told of
// without waiting any more.
constexpr auto kOutputGrace = 20ms;
// How long a descendant of a dead worker may go on writing.
constexpr auto kOutputLimit = 1s;

}  // namespace

WorkerGroup::Impl::Impl(asio::any_io_executor executor, int attempt, Containment& containment,
                        OutputRouter& router, control::ControlPage page, Log log,
                        const StackPlan& stacks, KilledLimits limits)
    : executor_(std::move(executor)),
      attempt_(attempt),
      containment_(containment),
      router_(router),
      page_(std::move(page)),
      log_(std::move(log)),
      killed_limits_(limits),
      start_wait_(executor_),
      stacks_when_(stacks.when),
      stack_taker_(executor_, containment, stacks),
      stack_captures_(
          executor_, stacks.limits.together,
          {.interrupt = [this] { stack_taker_.interrupt(); }, .on_idle = [this] { end_watch(); }},
          log_),
      news_signal_(executor_, Worker::Clock::time_point::max()),
      kill_timer_(executor_),
      orphans_(executor_),
      sweep_(executor_, containment_, limits, log_) {}

/// Static, with everything in its frame by value: it may outlive the group.
asio::awaitable<void> WorkerGroup::Impl::watch_worker(std::shared_ptr<Impl> self,
                                                      std::shared_ptr<Worker> worker) {
  try {
    co_await worker->process.wait_for_end();
  } catch (const Error&) {
    co_return;  // the group has been destroyed
  }
  if (worker->has_ended) co_return;  // given up
  // The attempt is over; a child that holds the output open would only delay the next one. Not
  // SIGKILL: some of the children are there to tidy up after the worker.
  if (!worker->was_stopped) worker->process.end_group_if_killed();
  const ProcessExit exit = worker->process.reap();
  worker->has_ended = true;
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
    add_exit_facts(exited, exit, worker->spec, self->out_of_memory_);
    if (worker->damage && exited.error_message.empty()) {
      exited.error_message =
          "memory shared with ddprun: the part of this worker was overwritten (" + *worker->damage +
          "); other memory of it may be damaged, too";
      if (exit.signal == SIGKILL) exited.error_message += ", so ddprun killed it";
    }
  }
  self->tell(std::move(exited));
  self->end_watch();
}

asio::awaitable<bool> WorkerGroup::Impl::read_to_end(std::shared_ptr<Worker> worker,
                                                     Deadline deadline) {
  const bool out = co_await worker->standard_output->wait_for_end(deadline);
  const bool error = co_await worker->standard_error->wait_for_end(deadline);
  co_return out&& error;
}

WorkerExited WorkerGroup::Impl::exit_of(const Worker& worker, const ProcessExit& exit) const {
  WorkerExited exited;
  exited.attempt = attempt_;
  exited.rank = worker.spec.rank;
  exited.local_rank = worker.spec.local_rank;
  exited.pid = worker.process.pid();
  exited.exit_code = exit.exit_code;
  exited.signal = exit.signal;
  exited.was_stopped = worker.was_stopped;
  exited.was_forwarded =
      std::find(forwarded_.begin(), forwarded_.end(), exit.signal) != forwarded_.end();
  exited.peak_memory_bytes = exit.peak_memory_bytes;
  exited.ran_seconds = worker.seconds_since_start();
  exited.ended_at = std::chrono::system_clock::now();
  return exited;
}

/// A worker that overwrites its part of the page may have overwritten anything.
void WorkerGroup::Impl::kill_damaged(Worker& worker, const std::string& damage) {
  if (worker.has_ended || worker.damage) return;
  worker.damage = damage;
  worker.process.signal_group(SIGKILL);
}

void WorkerGroup::Impl::note_death(Worker& worker, const std::optional<std::string>& damage) {
  if (damage) kill_damaged(worker, *damage);
  if (worker.was_stopped || std::exchange(worker.is_death_noticed, true)) return;
  tell(WorkerDying{.attempt = attempt_,
                   .rank = worker.spec.rank,
                   .after_start_seconds = worker.seconds_since_start(),
                   .error_message = read_error_report(worker.spec.error_file).message});
}

/// Told once until it has been taken note of.
void WorkerGroup::Impl::note_change() {
  const bool has_one_ended =
      std::any_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->has_ended; });
  const bool is_told = std::any_of(news_.begin(), news_.end(), [](const WorkerNews& news) {
    return std::holds_alternative<GroupsChanged>(news);
  });
  if (has_one_ended && !is_told) tell(GroupsChanged{});
}

void WorkerGroup::Impl::reap_orphans() {
  orphans_.async_wait([weak = weak_from_this()](boost::system::error_code error, int) {
    const auto self = weak.lock();
    if (error || !self) return;
    std::vector<pid_t> own = self->stack_taker_.tools().pids();
    for (const auto& worker : self->workers_) {
      if (!worker->has_ended) own.push_back(worker->process.pid());
    }
    self->containment_.reap_orphans(own);
    self->reap_orphans();
  });
}

asio::awaitable<WorkerNews> WorkerGroup::Impl::next() {
  const auto self = shared_from_this();
  while (true) {
    if (!news_.empty()) {
      WorkerNews news = std::move(news_.front());
      news_.pop_front();
      co_return news;
    }
    if (open_watches_ == 0) co_return NothingLeft{};
    boost::system::error_code ignored;
    news_signal_.expires_at(Worker::Clock::time_point::max());
    co_await news_signal_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void WorkerGroup::Impl::tell(WorkerNews news) {
  news_.push_back(std::move(news));
  news_signal_.cancel();
}

void WorkerGroup::Impl::end_watch() {
  if (--open_watches_ > 0) return;
  kill_timer_.cancel();
  orphans_.cancel();
  death_watch_.reset();
  news_signal_.cancel();
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
  const bool has_any = std::any_of(ranks.begin(), ranks.end(), [](const RankFlights& rank) {
    return !rank.worker.groups.empty();
  });
  if (!has_any) ranks.clear();
  return ranks;
}

WorkerGroup::WorkerGroup(asio::any_io_executor executor, int attempt, Containment& containment,
                         OutputRouter& router, control::ControlPage page, Log log,
                         const StackPlan& stacks, KilledLimits limits)
    : impl_(std::make_shared<Impl>(std::move(executor), attempt, containment, router,
                                   std::move(page), std::move(log), stacks, limits)) {}

WorkerGroup::~WorkerGroup() {
  impl_->close();
}

asio::awaitable<WorkerGroup::StartResult> WorkerGroup::start(std::vector<WorkerSpec> workers,
                                                             StartRetry& retry) {
  return impl_->start(std::move(workers), retry);
}

asio::awaitable<WorkerNews> WorkerGroup::next() {
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

void WorkerGroup::take_stacks(const std::string& reason) {
  impl_->take_stacks(StackMoment{.reason = reason}, {});
}

void WorkerGroup::note_late(std::vector<int> ranks) {
  impl_->note_late(std::move(ranks));
}

void WorkerGroup::abort(int rank, const std::string& reason) {
  impl_->abort(rank, reason);
}

asio::awaitable<Swept> WorkerGroup::sweep() {
  return impl_->sweep();
}

}  // namespace ddprun
