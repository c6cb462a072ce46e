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

asio::awaitable<WorkerGroup::StartResult> WorkerGroup::Impl::start(std::vector<WorkerSpec> specs) {
  const auto self = shared_from_this();
  is_starting_ = true;
  auto forking = fork_all(std::move(specs));
  auto failure = co_await std::move(forking);
  if (!failure) {
    auto waiting = wait_for_exec();
    failure = co_await std::move(waiting);
  }
  is_starting_ = false;
  if (failure) {
    auto giving_up = give_up();
    co_await std::move(giving_up);
    co_return *failure;
  }
  watch();
  for (const int signal : std::exchange(held_back_, {})) signal_all(signal);
  std::vector<WorkerStarted> started;
  for (const auto& worker : workers_) {
    started.push_back(
        {.attempt = attempt_, .rank = worker->spec.rank, .pid = worker->process.pid()});
  }
  co_return started;
}

/// All of them, unless they are to be stopped meanwhile.
asio::awaitable<std::optional<WorkerNotStarted>> WorkerGroup::Impl::fork_all(
    std::vector<WorkerSpec> specs) {
  for (const auto& spec : specs) {
    if (is_stopping_) break;
    if (const auto failure = fork_worker(spec)) co_return not_started(spec, *failure);
    // A thousand forks take seconds; signals and output have their turn in between.
    co_await asio::post(executor_, asio::use_awaitable);
  }
  co_return std::nullopt;
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
  out->start();
  error->start();
  workers_.push_back(
      std::make_shared<Worker>(Worker{.spec = spec,
                                      .process = std::move(std::get<WorkerProcess>(started)),
                                      .standard_output = std::move(out),
                                      .standard_error = std::move(error)}));
  return std::nullopt;
}

asio::awaitable<std::optional<WorkerNotStarted>> WorkerGroup::Impl::wait_for_exec() {
  start_wait_.begin(kExecLimit);
  const auto workers = workers_;  // close() may come in between
  for (const auto& worker : workers) {
    const int notice = worker->process.exec_notice();
    co_await start_wait_.until_readable(notice);
    if (const auto failure = worker->process.start_failure())
      co_return not_started(worker->spec, *failure);
  }
  co_return std::nullopt;
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

WorkerNotStarted WorkerGroup::Impl::not_started(const WorkerSpec& spec,
                                                const StartFailure& failure) const {
  return {.attempt = attempt_,
          .rank = spec.rank,
          .step = to_string(failure.step),
          .message = describe_start_failure(failure, spec.arguments.front(), spec.folder.string())};
}

void WorkerGroup::Impl::watch() {
  if (workers_.empty()) return;
  std::vector<pid_t> pids(static_cast<std::size_t>(page_.local_world_size()), 0);
  for (auto& worker : workers_) {
    pids.at(static_cast<std::size_t>(worker->spec.local_rank)) = worker->process.pid();
    ++open_watches_;
    auto watching = watch_worker(shared_from_this(), worker);
    // Joined by next(): NothingLeft comes when the last one is done.
    asio::co_spawn(executor_, std::move(watching), asio::detached);
  }
  const auto on_agents_thread = [weak = weak_from_this(), executor = executor_](auto what) {
    asio::post(executor, [weak, what] {
      if (const auto self = weak.lock()) what(*self);
    });
  };
  death_watch_.emplace(
      page_, std::move(pids),
      [on_agents_thread](int local_rank) {
        on_agents_thread([local_rank](Impl& self) {
          for (auto& worker : self.workers_) {
            if (worker->spec.local_rank == local_rank && !worker->has_ended)
              self.note_death(*worker);
          }
        });
      },
      [on_agents_thread] { on_agents_thread([](Impl& self) { self.note_change(); }); });
  if (containment_.is_parent_of_orphans()) {
    orphans_.add(SIGCHLD);
    reap_orphans();
  }
}

}  // namespace ddprun
