#include "launcher/process/exec_failure.hpp"
#include "launcher/process/worker_environment.hpp"
#include "launcher/process/worker_group_impl.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <iterator>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Exec reads the program's first page; longer than this is a file system that hangs.
constexpr auto kExecLimit = 30s;
// How long those that were started may take to end when another one could not be.
constexpr auto kGiveUpLimit = 1s;

/// Returns when the process has ended, or its handle has been closed.
asio::awaitable<void> end_of(std::shared_ptr<Worker> worker) {
  try {
    co_await worker->process.wait_for_end();
  } catch (const Error&) {
  }
}

}  // namespace

asio::awaitable<WorkerGroup::StartResult> WorkerGroup::Impl::start(std::vector<WorkerSpec> specs,
                                                                   StartRetry& retry) {
  using Action = StartDecision::Action;
  const auto self = shared_from_this();
  is_starting_ = true;
  std::deque<WorkerSpec> missing(std::make_move_iterator(specs.begin()),
                                 std::make_move_iterator(specs.end()));
  std::optional<FailedWorker> failed;
  auto action = Action::retry;
  do {
    auto trying = try_start(missing, retry);
    failed = co_await std::move(trying);
    if (!failed) break;
    auto deciding = retry.after(failed->failure, failed->rank, failed->message);
    action = co_await std::move(deciding);
  } while (action == Action::retry && !must_end_start(retry));
  is_starting_ = false;
  if (failed && action != Action::retry) {
    auto giving_up = give_up();
    co_await std::move(giving_up);
    co_return WorkerNotStarted{.attempt = attempt_,
                               .rank = failed->rank,
                               .step = to_string(failed->failure.step),
                               .message = failed->message,
                               .ends_the_run = action == Action::end_run};
  }
  co_return finish_start();
}

std::vector<WorkerStarted> WorkerGroup::Impl::finish_start() {
  // Workers that needed several tries come after the others.
  std::sort(workers_.begin(), workers_.end(),
            [](const auto& a, const auto& b) { return a->spec.local_rank < b->spec.local_rank; });
  watch();
  for (const int signal : std::exchange(held_back_, {})) signal_all(signal);
  std::vector<WorkerStarted> started;
  for (const auto& worker : workers_) {
    started.push_back(
        {.attempt = attempt_, .rank = worker->spec.rank, .pid = worker->process.pid()});
  }
  return started;
}

/// Starts the workers of `missing` and leaves those in it that are not past exec. The others keep
/// running while these are tried again: workers of other nodes may be connected to them already.
/// Returns the first failure.
asio::awaitable<std::optional<FailedWorker>> WorkerGroup::Impl::try_start(
    std::deque<WorkerSpec>& missing, const StartRetry& retry) {
  auto forking = fork_all(missing, retry);
  auto failed = co_await std::move(forking);
  auto waiting = wait_for_exec(missing);
  const auto failed_exec = co_await std::move(waiting);
  if (!failed) failed = failed_exec;
  if (!failed) failed = start_death_watch();
  co_return failed;
}

bool WorkerGroup::Impl::must_end_start(const StartRetry& retry) const {
  return is_stopping_ || has_killed_ || retry.has_ended();
}

/// All of them, unless they are to be stopped meanwhile.
asio::awaitable<std::optional<FailedWorker>> WorkerGroup::Impl::fork_all(
    std::deque<WorkerSpec>& missing, const StartRetry& retry) {
  while (!missing.empty() && !must_end_start(retry)) {
    const auto failed = fork_worker(missing.front());
    if (failed) co_return failed;
    missing.pop_front();
    // A thousand forks take seconds; signals and output have their turn in between.
    co_await asio::post(executor_, asio::use_awaitable);
  }
  co_return std::nullopt;
}

std::optional<FailedWorker> WorkerGroup::Impl::fork_worker(const WorkerSpec& spec) {
  try {
    const auto failure = fork_with_streams(spec);
    return failure ? std::optional(failed_worker(spec, *failure)) : std::nullopt;
  } catch (const Error& error) {
    if (error.code() != Errc::system) throw;
    return FailedWorker{.rank = spec.rank,
                        .failure = {.step = StartStep::files, .error_number = error.error_number()},
                        .message = error.what()};
  }
}

std::optional<StartFailure> WorkerGroup::Impl::fork_with_streams(const WorkerSpec& spec) {
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
  out->start();
  error->start();
  workers_.push_back(
      std::make_shared<Worker>(Worker{.spec = spec,
                                      .process = std::move(std::get<WorkerProcess>(started)),
                                      .standard_output = std::move(out),
                                      .standard_error = std::move(error)}));
  return std::nullopt;
}

/// Workers that do not get past exec are reaped and put into `missing`. Returns the first failure.
asio::awaitable<std::optional<FailedWorker>> WorkerGroup::Impl::wait_for_exec(
    std::deque<WorkerSpec>& missing) {
  start_wait_.begin(kExecLimit);
  std::optional<FailedWorker> failed;
  const auto workers = workers_;  // close() may come in between
  for (const auto& worker : workers) {
    const int notice = worker->process.exec_notice();
    if (notice < 0) continue;  // past exec since an earlier try
    co_await start_wait_.until_readable(notice);
    const auto failure = worker->process.start_failure();
    if (!failure) continue;
    // Not retried, and its end is not waited for here: the kernel may hold it.
    const bool hangs = failure->error_number == ETIMEDOUT;
    if (!failed || hangs) failed = failed_worker(worker->spec, *failure);
    if (hangs) continue;
    worker->process.close(Deadline::after(kGiveUpLimit));
    worker->standard_output->close();
    worker->standard_error->close();
    missing.push_back(worker->spec);
    std::erase(workers_, worker);
  }
  co_return failed;
}

asio::awaitable<void> WorkerGroup::Impl::give_up() {
  signal_all(SIGKILL);
  const auto deadline = Deadline::after(kGiveUpLimit);
  const auto workers = workers_;
  for (const auto& worker : workers) {
    auto end = end_of(worker);
    co_await with_deadline(std::move(end), deadline);
  }
  close();
}

FailedWorker WorkerGroup::Impl::failed_worker(const WorkerSpec& spec, const StartFailure& failure) {
  return {.rank = spec.rank,
          .failure = failure,
          .message = describe_start_failure(failure, spec.arguments.front(), spec.folder.string())};
}

void WorkerGroup::Impl::watch() {
  for (auto& worker : workers_) {
    ++open_watches_;
    auto watching = watch_worker(shared_from_this(), worker);
    // Joined by next(): NothingLeft comes when the last one is done.
    asio::co_spawn(executor_, std::move(watching), asio::detached);
  }
  if (containment_.is_parent_of_orphans() && !workers_.empty()) {
    orphans_.add(SIGCHLD);
    reap_orphans();
  }
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
        [on_agents_thread] { on_agents_thread([](Impl& self) { self.note_change(); }); });
  } catch (const std::system_error& error) {
    return failed_worker(workers_.front()->spec,
                         {.step = StartStep::thread, .error_number = error.code().value()});
  }
  return std::nullopt;
}

}  // namespace ddprun
