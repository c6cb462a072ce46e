#include "launcher/process/worker_starter.hpp"

#include "launcher/process/exec_failure.hpp"
#include "launcher/process/worker_environment.hpp"
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/with_deadline.hpp"
#include <ddprun/error.hpp>
#include <ddprun/worker_env.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <memory>
#include <set>
#include <unistd.h>
#include <utility>
#include <variant>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Exec reads the program's first page; a longer wait means that a file system hangs.
constexpr auto kExecLimit = 30s;
// Time for started workers to end after another one could not be started.
constexpr auto kKilledLimit = 1s;

/// Returns when the process has ended, or its handle has been closed.
asio::awaitable<void> end_of(std::shared_ptr<Worker> worker) {
  try {
    co_await worker->process.wait_for_end();
  } catch (const Error&) {
  }
}

/// Returns a name that no other process can have taken.
std::string inspection_socket() {
  constexpr std::size_t kRandomBytes = 16;
  return "ddprun-" + hexadecimal(random_bytes(kRandomBytes));
}

/// Returns the names of variables that differ between workers, or that ddprun sets for each.
std::set<std::string> own_variables(const std::deque<WorkerSpec>& specs) {
  std::set<std::string> names;
  const WorkerEnv all{.agent_store_port = 1, .control_page_fd = 0, .shares_gpus = true};
  for (const auto& [name, value] : to_environment(all)) names.insert(name);
  for (const auto& spec : specs) {
    for (const auto& [name, value] : spec.environment) {
      const auto& first = specs.front().environment;
      const auto other = first.find(name);
      if (other == first.end() || other->second != value) names.insert(name);
    }
  }
  return names;
}

}  // namespace

FailedWorker failed_worker(const WorkerSpec& spec, const StartFailure& failure) {
  return {.rank = spec.rank,
          .failure = failure,
          .message = describe_start_failure(failure, spec.arguments.front(), spec.folder.string())};
}

WorkerStarter::WorkerStarter(asio::any_io_executor executor, Containment& containment,
                             OutputRouter& router, PreloadedPython* python, int page_fd,
                             Workers& workers)
    : executor_(std::move(executor)),
      containment_(containment),
      router_(router),
      python_(python),
      page_fd_(page_fd),
      workers_(workers),
      exec_wait_(executor_) {}

asio::awaitable<std::optional<FailedWorker>> WorkerStarter::start(std::deque<WorkerSpec>& missing,
                                                                  std::function<bool()> must_end) {
  auto forking = fork_all(missing, std::move(must_end));
  auto failed = co_await std::move(forking);
  auto waiting = wait_for_exec(missing);
  const auto failed_exec = co_await std::move(waiting);
  co_return failed ? failed : failed_exec;
}

asio::awaitable<std::optional<FailedWorker>> WorkerStarter::fork_all(
    std::deque<WorkerSpec>& missing, std::function<bool()> must_end) {
  if (python_ != nullptr && !missing.empty() && !must_end()) {
    auto preparing = python_->prepare(preload_request(missing));
    is_python_ready_ = co_await std::move(preparing);
  }
  std::optional<FailedWorker> failed;
  while (!missing.empty() && !must_end()) {
    auto forking = fork_worker(missing.front());
    failed = co_await std::move(forking);
    if (failed) break;
    missing.pop_front();
    // A thousand forks take seconds; signals and output are handled in between.
    co_await asio::post(executor_, asio::use_awaitable);
  }
  if (std::exchange(is_python_ready_, false)) {
    auto ending = python_->end_forks();
    co_await std::move(ending);
  }
  co_return failed;
}

asio::awaitable<std::optional<FailedWorker>> WorkerStarter::fork_worker(const WorkerSpec& spec) {
  try {
    auto forking = fork_with_streams(spec);
    const auto failure = co_await std::move(forking);
    co_return failure ? std::optional(failed_worker(spec, *failure)) : std::nullopt;
  } catch (const Error& error) {
    if (error.code() != Errc::system) throw;
    co_return FailedWorker{
        .rank = spec.rank,
        .failure = {.step = StartStep::files, .error_number = error.error_number()},
        .message = error.what()};
  }
}

std::vector<std::string> WorkerStarter::environment_of(const WorkerSpec& spec) const {
  const auto [marker_name, marker_value] = containment_.marker();
  return worker_environment(spec.environment, spec.removed_variables, marker_name, marker_value);
}

PreloadRequest WorkerStarter::preload_request(const std::deque<WorkerSpec>& specs) const {
  const auto& first = specs.front();
  return {.arguments = first.arguments,
          .own_variables = own_variables(specs),
          .environment = environment_of(first),
          .folder = first.error_file.parent_path(),
          .open_files_max = first.open_files_max};
}

asio::awaitable<std::optional<StartFailure>> WorkerStarter::fork_with_streams(
    const WorkerSpec& spec) {
  auto out = router_.open(spec.standard_output, StreamKind::standard_output);
  auto error = router_.open(spec.standard_error, StreamKind::standard_error);
  const UniqueFd input(spec.inherits_standard_input
                           ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                           : -1);
  const ProcessRequest request{.arguments = spec.arguments,
                               .environment = environment_of(spec),
                               .folder = spec.folder.string(),
                               .cpus = spec.cpus,
                               .memory_node = spec.memory_node,
                               .open_files_max = spec.open_files_max,
                               .standard_input = input.get(),
                               .standard_output = out->worker_end(),
                               .standard_error = error->worker_end(),
                               .kept_descriptor = page_fd_,
                               .cgroup_fd = containment_.cgroup_fd(),
                               .inspection_socket = is_python_ready_ ? inspection_socket() : ""};
  auto starting = start_process(request);
  auto started = co_await std::move(starting);
  if (const auto* failure = std::get_if<StartFailure>(&started)) co_return *failure;
  out->close_worker_end();
  error->close_worker_end();
  out->start();
  error->start();
  Worker worker{.spec = spec,
                .process = std::move(std::get<WorkerProcess>(started)),
                .standard_output = std::move(out),
                .standard_error = std::move(error)};
  // If the fork has failed, the worker was started by exec.
  if (is_python_ready_) worker.inspection_socket = request.inspection_socket;
  workers_.push_back(std::make_shared<Worker>(std::move(worker)));
  co_return std::nullopt;
}

asio::awaitable<std::variant<WorkerProcess, StartFailure>> WorkerStarter::start_process(
    const ProcessRequest& request) {
  if (is_python_ready_) {
    auto forking = python_->fork(request);
    auto forked = co_await std::move(forking);
    if (auto* process = std::get_if<ForkedProcess>(&forked)) {
      co_return WorkerProcess::adopt(executor_, std::move(*process));
    }
    auto ending = python_->end_forks();
    co_await std::move(ending);
    is_python_ready_ = false;
  }
  co_return WorkerProcess::start(executor_, request);
}

void WorkerStarter::interrupt() {
  if (python_ != nullptr) python_->interrupt();
}

void WorkerStarter::close() {
  interrupt();
  exec_wait_.end();
}

/// Reaps workers whose exec has failed and puts them into `missing`. Returns the first failure.
asio::awaitable<std::optional<FailedWorker>> WorkerStarter::wait_for_exec(
    std::deque<WorkerSpec>& missing) {
  exec_wait_.begin(kExecLimit);
  std::optional<FailedWorker> failed;
  const auto workers = workers_;  // close() may be called in the meantime
  for (const auto& worker : workers) {
    const int notice = worker->process.exec_notice();
    if (notice < 0) continue;  // started by an earlier try
    co_await exec_wait_.until_readable(notice);
    const auto failure = worker->process.start_failure();
    if (!failure) continue;
    if (worker->is_fork_of_python()) python_->give_up("a fork has failed before its program");
    // Not retried, and its end is not awaited: it may hang in the kernel.
    const bool hangs = failure->error_number == ETIMEDOUT;
    if (!failed || hangs) failed = failed_worker(worker->spec, *failure);
    if (hangs) continue;
    worker->process.close(Deadline::after(kKilledLimit));
    worker->standard_output->close();
    worker->standard_error->close();
    missing.push_back(worker->spec);
    std::erase(workers_, worker);
  }
  co_return failed;
}

asio::awaitable<void> WorkerStarter::kill_all() {
  for (const auto& worker : workers_) {
    if (!worker->has_ended) worker->process.signal_group(SIGKILL);
  }
  const auto deadline = Deadline::after(kKilledLimit);
  const auto workers = workers_;  // the group may be closed in the meantime
  for (const auto& worker : workers) {
    auto end = end_of(worker);
    co_await with_deadline(std::move(end), deadline);
  }
}

}  // namespace ddprun
