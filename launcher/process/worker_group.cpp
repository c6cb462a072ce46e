#include "launcher/process/worker_group.hpp"

#include "launcher/process/error_file.hpp"
#include "launcher/process/exec_failure.hpp"
#include "launcher/process/unique_fd.hpp"
#include "launcher/process/worker_environment.hpp"
#include "launcher/process/worker_group_impl.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <csignal>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Exec reads the program's first page; longer than this is a file system that hangs.
constexpr auto kExecLimit = 30s;
// The output of a worker without descendants ends with it; after this long its death is told of
// without waiting any more.
constexpr auto kOutputGrace = 20ms;
// How long a descendant of a dead worker may go on writing.
constexpr auto kOutputLimit = 1s;

}  // namespace

WorkerGroup::Impl::Impl(asio::any_io_executor executor, int attempt, Containment& containment,
                        OutputRouter& router, control::ControlPage page, Log log,
                        const StackPlan& stacks)
    : executor_(std::move(executor)),
      attempt_(attempt),
      containment_(containment),
      router_(router),
      page_(std::move(page)),
      log_(std::move(log)),
      stacks_when_(stacks.when),
      stack_taker_(executor_, containment, stacks),
      stack_captures_(
          executor_,
          {.interrupt = [this] { stack_taker_.interrupt(); }, .on_idle = [this] { end_watch(); }},
          log_),
      news_signal_(executor_, Worker::Clock::time_point::max()),
      kill_timer_(executor_),
      orphans_(executor_) {}

std::variant<std::vector<WorkerStarted>, WorkerNotStarted> WorkerGroup::Impl::start(
    const std::vector<WorkerSpec>& specs) {
  std::vector<WorkerStarted> started;
  for (const auto& spec : specs) {
    if (const auto failure = fork_worker(spec)) return give_up(spec, *failure);
  }
  const auto deadline = Deadline::after(kExecLimit);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    auto& process = workers_[i]->process;
    const auto failure = process.wait_for_exec(deadline);
    if (failure) return give_up(specs[i], *failure);
    started.push_back({.attempt = attempt_, .rank = specs[i].rank, .pid = process.pid()});
  }
  watch();
  return started;
}

std::optional<StartFailure> WorkerGroup::Impl::fork_worker(const WorkerSpec& spec) {
  auto out = router_.open(spec.standard_output, StreamKind::standard_output);
  auto error = router_.open(spec.standard_error, StreamKind::standard_error);
  const auto [marker_name, marker_value] = containment_.marker();
  const UniqueFd input(spec.inherits_standard_input
                           ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                           : -1);
  const ProcessRequest request{
      .arguments = spec.arguments,
      .environment =
          worker_environment(spec.environment, spec.removed_variables, marker_name, marker_value),
      .folder = spec.folder.string(),
      .cpus = spec.cpus,
      .memory_node = spec.memory_node,
      .open_files_max = spec.open_files_max,
      .standard_input = input.get(),
      .standard_output = out->worker_end(),
      .standard_error = error->worker_end(),
      .kept_descriptor = page_.fd(),
      .cgroup_fd = containment_.cgroup_fd()};
  auto started = WorkerProcess::start(executor_, request);
  if (const auto* failure = std::get_if<StartFailure>(&started)) return *failure;
  out->close_worker_end();
  error->close_worker_end();
  workers_.push_back(
      std::make_shared<Worker>(Worker{.spec = spec,
                                      .process = std::move(std::get<WorkerProcess>(started)),
                                      .standard_output = std::move(out),
                                      .standard_error = std::move(error)}));
  return std::nullopt;
}

WorkerNotStarted WorkerGroup::Impl::give_up(const WorkerSpec& spec, const StartFailure& failure) {
  close();
  return {.attempt = attempt_,
          .rank = spec.rank,
          .step = to_string(failure.step),
          .message = describe_start_failure(failure, spec.arguments.front(), spec.folder.string())};
}

void WorkerGroup::Impl::watch() {
  std::vector<pid_t> pids(static_cast<std::size_t>(page_.local_world_size()), 0);
  for (auto& worker : workers_) {
    pids.at(static_cast<std::size_t>(worker->spec.local_rank)) = worker->process.pid();
    worker->standard_output->start();
    worker->standard_error->start();
    ++open_watches_;
    auto watching = watch_worker(shared_from_this(), worker);
    // Joined by next(): NothingLeft comes when the last one is done.
    asio::co_spawn(executor_, std::move(watching), asio::detached);
  }
  death_watch_.emplace(page_, std::move(pids),
                       [weak = weak_from_this(), executor = executor_](int local_rank) {
                         asio::post(executor, [weak, local_rank] {
                           const auto self = weak.lock();
                           if (!self) return;
                           for (auto& worker : self->workers_) {
                             if (worker->spec.local_rank == local_rank && !worker->has_ended)
                               self->note_death(*worker);
                           }
                         });
                       });
  if (containment_.mode() == ContainmentMode::marker) {
    orphans_.add(SIGCHLD);
    reap_orphans();
  }
}

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
  exited.peak_memory_bytes = exit.peak_memory_bytes;
  exited.ran_seconds = worker.seconds_since_start();
  return exited;
}

void WorkerGroup::Impl::note_death(Worker& worker) {
  if (worker.was_stopped || std::exchange(worker.is_death_noticed, true)) return;
  tell(WorkerDying{.attempt = attempt_,
                   .rank = worker.spec.rank,
                   .after_start_seconds = worker.seconds_since_start(),
                   .error_message = read_error_report(worker.spec.error_file).message});
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

WorkerGroup::WorkerGroup(asio::any_io_executor executor, int attempt, Containment& containment,
                         OutputRouter& router, control::ControlPage page, Log log,
                         const StackPlan& stacks)
    : impl_(std::make_shared<Impl>(std::move(executor), attempt, containment, router,
                                   std::move(page), std::move(log), stacks)) {}

WorkerGroup::~WorkerGroup() {
  impl_->close();
}

std::variant<std::vector<WorkerStarted>, WorkerNotStarted> WorkerGroup::start(
    const std::vector<WorkerSpec>& workers) {
  return impl_->start(workers);
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

void WorkerGroup::put_off_limits(std::chrono::steady_clock::duration by) {
  impl_->put_off_limits(by);
}

std::vector<int> WorkerGroup::running() const {
  return impl_->running();
}

void WorkerGroup::take_stacks(const std::string& reason) {
  impl_->take_stacks(StackMoment{.reason = reason}, {});
}

void WorkerGroup::abort(int rank, const std::string& reason) {
  impl_->abort(rank, reason);
}

asio::awaitable<std::vector<pid_t>> WorkerGroup::sweep() {
  return impl_->sweep();
}

}  // namespace ddprun
