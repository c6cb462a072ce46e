#include "tests/support/worker_bench.hpp"

#include "launcher/process/proc_scan.hpp"
#include "launcher/report/grouped_stacks.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <doctest/doctest.h>

#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::test {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

WorkerSpec shell_worker(int local_rank, const std::string& script) {
  WorkerSpec spec;
  spec.rank = local_rank;
  spec.local_rank = local_rank;
  spec.arguments = {"/bin/sh", "-c", script};
  spec.standard_output.prefix = "[w" + std::to_string(local_rank) + "]:";
  spec.standard_error.prefix = spec.standard_output.prefix;
  return spec;
}

const WorkerExited& History::exit_of(int rank) const {
  for (const auto& exit : exited) {
    if (exit.rank == rank) return exit;
  }
  throw std::runtime_error("rank " + std::to_string(rank) + " has not exited");
}

class WorkerBench::Impl {
 public:
  Impl(int local_world_size, ContainmentMode mode, const StackPlan& stacks, KilledLimits limits)
      : containment({.mode = mode}),
        console(::open((folder.path() / "console").c_str(),
                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)),
        router(io.get_executor(), {.standard_output = console, .standard_error = console},
               [this](LogLevel, std::string_view line) { log.emplace_back(line); }),
        page(control::ControlPage::create(local_world_size)),
        page_fd(page.fd()),
        group(std::make_unique<WorkerGroup>(
            io.get_executor(), 0, containment, router, std::move(page),
            [this](LogLevel, std::string_view line) { log.emplace_back(line); }, stacks, limits)) {}

  ~Impl() {
    group.reset();
    io.restart();
    io.poll();
    ::close(console);
  }

  /// Adds the stacks of each rank, without groups.
  void note(const StacksCaptured& captured) {
    for (const auto& each : captured.stacks) {
      for (const int rank : ranks_of(each)) {
        history.stacks.push_back(each);
        history.stacks.back().rank = rank;
        history.stacks.back().same.clear();
      }
    }
  }

  asio::awaitable<void> take_event() {
    if (!group) co_return;  // the bench ended before this began
    WorkerEvent event = co_await group->next();
    if (auto* dying = std::get_if<WorkerDying>(&event)) history.dying.push_back(*dying);
    if (auto* exited = std::get_if<WorkerExited>(&event)) history.exited.push_back(*exited);
    if (auto* killed = std::get_if<WorkersKilled>(&event)) history.killed.push_back(*killed);
    if (auto* captured = std::get_if<StacksCaptured>(&event)) note(*captured);
    if (std::holds_alternative<AllExited>(event)) history.is_complete = true;
    is_taking = false;
    ++taken;
  }

  /// Runs the operation to its end, and nothing else of the bench.
  template <typename Result>
  Result complete(asio::awaitable<Result> operation, const std::function<void()>& meanwhile) {
    auto result = asio::co_spawn(io, std::move(operation), asio::use_future);
    const auto deadline = Deadline::after(60s);
    while (result.wait_for(0s) != std::future_status::ready) {
      if (deadline.passed()) fail("an operation did not end in a minute");
      io.restart();
      io.run_one_for(50ms);
      meanwhile();
    }
    return result.get();
  }

  /// Calls next() one at a time, in the background.
  void keep_taking() {
    if (is_taking || history.is_complete) return;
    is_taking = true;
    auto taking = take_event();
    asio::co_spawn(io, std::move(taking), asio::detached);
  }

  std::vector<std::string> log;
  TemporaryFolder folder;
  asio::io_context io;
  Containment containment;
  int console;
  OutputRouter router;
  control::ControlPage page;  ///< until the group has it
  int page_fd;
  std::unique_ptr<WorkerGroup> group;
  History history;
  bool is_taking = false;
  int taken = 0;
};

WorkerBench::WorkerBench(int local_world_size, ContainmentMode mode, const StackPlan& stacks,
                         KilledLimits limits)
    : impl_(std::make_unique<Impl>(local_world_size, mode, stacks, limits)) {}

WorkerBench::~WorkerBench() = default;

WorkerGroup& WorkerBench::group() {
  return *impl_->group;
}

int WorkerBench::control_page_fd() const {
  return impl_->page_fd;
}

Containment& WorkerBench::containment() {
  return impl_->containment;
}

std::vector<WorkerStarted> WorkerBench::start(const std::vector<WorkerSpec>& workers) {
  const auto result = try_start(workers);
  if (const auto* failure = std::get_if<WorkerNotStarted>(&result)) fail(failure->message);
  return std::get<std::vector<WorkerStarted>>(result);
}

WorkerGroup::StartResult WorkerBench::try_start(const std::vector<WorkerSpec>& workers,
                                                const std::function<void()>& meanwhile) {
  StartRetry retry(impl_->io.get_executor(), false);
  auto starting = impl_->group->start(workers, retry);
  return impl_->complete(std::move(starting), meanwhile);
}

WorkerGroup::StartResult WorkerBench::try_restart(const std::vector<WorkerSpec>& workers,
                                                  const std::function<void()>& meanwhile,
                                                  std::chrono::milliseconds limit) {
  StartRetry retry(
      impl_->io.get_executor(), true,
      [this](LogLevel, std::string_view line) { impl_->log.emplace_back(line); }, limit);
  auto starting = impl_->group->start(workers, retry);
  return impl_->complete(std::move(starting), meanwhile);
}

void WorkerBench::run_a_little() {
  impl_->keep_taking();
  impl_->io.restart();
  impl_->io.run_one_for(50ms);
}

void WorkerBench::run_to_end() {
  run_until([this] { return impl_->history.is_complete; });
  auto draining = impl_->router.drain(Deadline::after(20s));
  impl_->complete(std::move(draining), [] {});
}

void WorkerBench::run_to_first_exit() {
  run_until([this] { return !impl_->history.exited.empty(); });
}

void WorkerBench::run_to_first_event() {
  run_until([this] { return impl_->taken > 0; });
}

const History& WorkerBench::history() const {
  return impl_->history;
}

std::vector<pid_t> WorkerBench::sweep(const std::function<void()>& meanwhile) {
  return sweep_all(meanwhile).ended;
}

Swept WorkerBench::sweep_all(const std::function<void()>& meanwhile) {
  auto sweeping = impl_->group->sweep();
  return impl_->complete(std::move(sweeping), meanwhile);
}

std::string WorkerBench::console() const {
  std::ifstream file(impl_->folder.path() / "console", std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const fs::path& WorkerBench::folder() const {
  return impl_->folder.path();
}

const std::vector<std::string>& WorkerBench::log() const {
  return impl_->log;
}

void WorkerBench::fail(const std::string& why) {
  throw std::runtime_error(why);
}

std::string await_line(const fs::path& file) {
  const auto deadline = Deadline::after(60s);
  while (!deadline.passed()) {
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    if (text.str().ends_with('\n')) return text.str();
    ::poll(nullptr, 0, 5);
  }
  throw std::runtime_error(file.string() + " did not get a line in a minute");
}

bool is_alive(pid_t pid) {
  const char letter = process_state(pid).letter;
  return letter != '\0' && letter != 'Z' && letter != 'X';
}

bool await_end(pid_t pid, Deadline deadline) {
  while (is_alive(pid)) {
    if (deadline.passed()) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace ddprun::test
