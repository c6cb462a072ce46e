#include "launcher/process/tool_runner.hpp"

#include "launcher/process/exec_failure.hpp"
#include "launcher/process/limited_wait.hpp"
#include "launcher/process/run_members.hpp"
#include "launcher/process/worker_environment.hpp"
#include "rendezvous/base/with_deadline.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>

namespace ddprun {

namespace asio = boost::asio;

/// State of a running tool.
struct RunningTool {
  asio::posix::stream_descriptor output;  ///< the reading end of the pipe
  bool is_interrupted = false;
};

namespace {

using namespace std::chrono_literals;

// Time for a debugger to detach after it was asked to end.
constexpr auto kEndGrace = 500ms;
// Time for a killed tool to end.
constexpr auto kToolKillLimit = 500ms;

/// Returns false if interrupted, possibly before it began.
asio::awaitable<bool> read_to_end(RunningTool& tool, std::string& text, std::size_t bytes_max) {
  std::array<char, 4096> part{};
  boost::system::error_code error;
  while (!tool.is_interrupted) {
    const auto bytes = co_await tool.output.async_read_some(
        asio::buffer(part), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return error != asio::error::operation_aborted;
    text.append(part.data(), std::min(bytes, bytes_max - text.size()));
  }
  co_return false;
}

/// Keeps a tool in a list for the lifetime of the coroutine that added it.
class Listed {
 public:
  Listed(std::map<pid_t, RunningTool*>& list, pid_t pid, RunningTool& tool)
      : list_(list), pid_(pid) {
    list_.emplace(pid_, &tool);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  ~Listed() { list_.erase(pid_); }

 private:
  std::map<pid_t, RunningTool*>& list_;
  pid_t pid_;
};

}  // namespace

/// Permission to run a tool. Its release wakes the next waiting one.
class ToolRunner::Turn {
 public:
  explicit Turn(ToolRunner& runner) : runner_(runner) { ++runner_.turns_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    --runner_.turns_;
    runner_.turn_.notify_one();
  }

 private:
  ToolRunner& runner_;
};

ToolRunner::ToolRunner(asio::any_io_executor executor, Containment& containment)
    : executor_(std::move(executor)), containment_(containment), turn_(executor_) {}

asio::awaitable<bool> ToolRunner::wait_for_turn(Deadline deadline) {
  const auto before = interruptions_;
  while (turns_ >= kToolsMax && before == interruptions_ && !deadline.passed()) {
    auto waiting = turn_.wait();
    co_await with_deadline(std::move(waiting), deadline);
  }
  const bool is_its_turn = turns_ < kToolsMax && before == interruptions_ && !deadline.passed();
  // A waiter that was woken but interrupted wakes the next one.
  if (!is_its_turn && turns_ < kToolsMax) turn_.notify_one();
  co_return is_its_turn;
}

ProcessRequest ToolRunner::process_request(const ToolRequest& request, const ToolStart& start,
                                           int output) {
  const auto [name, value] = containment_.marker();
  // gdb's messages are parsed.
  const std::map<std::string, std::string> added = {{"LC_ALL", "C"}};
  // The user may lack access to the folder of the program.
  const bool is_open = request.program_fd >= 0;
  return {.program = is_open ? "/proc/self/fd/" + std::to_string(request.program_fd) : "",
          .arguments = request.arguments,
          .environment = start.user ? restricted_environment(added, name, value)
                                    : worker_environment(added, {}, name, value),
          .standard_input = request.standard_input,
          .standard_output = output,
          .standard_error = output,
          .kept_descriptor = request.program_fd,
          .cgroup_fd = containment_.cgroup_fd(),
          .data_bytes_max = request.data_bytes_max,
          .cpu_seconds_max = request.cpu_seconds_max,
          .user = start.user};
}

asio::awaitable<ToolOutput> ToolRunner::run(ToolRequest request, std::function<ToolStart()> prepare,
                                            Deadline deadline) {
  const bool is_its_turn = co_await wait_for_turn(deadline);
  if (!is_its_turn) co_return ToolOutput{.problem = "there was no time left for it"};
  const Turn turn(*this);
  const ToolStart start = prepare();
  if (!start.objection.empty()) co_return ToolOutput{.problem = start.objection};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) co_return ToolOutput{.problem = std::strerror(errno)};
  UniqueFd writer(ends[1]);
  RunningTool tool{.output = asio::posix::stream_descriptor(executor_, ends[0])};
  auto started = WorkerProcess::start(executor_, process_request(request, start, writer.get()));
  writer = UniqueFd();
  const auto problem_of = [&](const StartFailure& failure) {
    return ToolOutput{.problem = describe_start_failure(failure, request.arguments[0], "")};
  };
  if (const auto* failure = std::get_if<StartFailure>(&started)) co_return problem_of(*failure);
  auto& process = std::get<WorkerProcess>(started);
  const Listed listed(running_, process.pid(), tool);
  LimitedWait exec(executor_);
  exec.begin(deadline.remaining());
  const int notice = process.exec_notice();
  co_await exec.until_readable(notice);
  if (const auto failure = process.start_failure()) {
    auto ending = end(process);
    co_await std::move(ending);
    co_return problem_of(*failure);
  }
  ToolOutput output;
  auto reading = read_to_end(tool, output.text, request.output_bytes_max);
  const auto is_read = co_await with_deadline(std::move(reading), deadline);
  if (!is_read.value_or(false)) {
    output.problem = "it was not done in time";
    process.signal_group(SIGTERM);
    tool.is_interrupted = false;
    auto reading_on = read_to_end(tool, output.text, request.output_bytes_max);
    co_await with_deadline(std::move(reading_on), Deadline::after(kEndGrace));
  }
  auto ending = end(process);
  co_await std::move(ending);
  co_return output;
}

/// Kills and reaps the tool. Its destructor would block this thread if the tool hangs in the
/// kernel.
asio::awaitable<void> ToolRunner::end(WorkerProcess& process) {
  process.signal_group(SIGKILL);
  if (const auto open = open_process(process.pid())) {
    LimitedWait killed(executor_);
    killed.begin(kToolKillLimit);
    const int pidfd = open->pidfd.get();
    co_await killed.until_readable(pidfd);
  }
  process.close(Deadline::after({}));
}

void ToolRunner::interrupt() {
  ++interruptions_;
  turn_.notify_all();
  for (const auto& [pid, tool] : running_) {
    tool->is_interrupted = true;
    tool->output.cancel();
  }
}

void ToolRunner::kill() noexcept {
  // Listed tools have not been reaped, so their PIDs are not reused.
  for (const auto& [pid, tool] : running_) {
    // Shortly after the fork it has no process group of its own.
    if (::kill(-pid, SIGKILL) != 0) ::kill(pid, SIGKILL);
  }
}

std::vector<pid_t> ToolRunner::pids() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, tool] : running_) pids.push_back(pid);
  return pids;
}

}  // namespace ddprun
