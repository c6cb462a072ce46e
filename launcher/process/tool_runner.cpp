#include "launcher/process/tool_runner.hpp"

#include "launcher/process/exec_failure.hpp"
#include "launcher/process/worker_environment.hpp"
#include "launcher/process/worker_process.hpp"
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

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// For a debugger to let go of its process after it was told to end.
constexpr auto kEndGrace = 500ms;

asio::awaitable<void> read_to_end(asio::posix::stream_descriptor& pipe, std::string& text,
                                  std::size_t bytes_max) {
  std::array<char, 4096> part{};
  boost::system::error_code error;
  while (true) {
    const auto bytes = co_await pipe.async_read_some(
        asio::buffer(part), asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) throw boost::system::system_error(error);
    if (error) co_return;
    text.append(part.data(), std::min(bytes, bytes_max - text.size()));
  }
}

/// Takes a number out of a set when the coroutine that put it there ends, however it does.
class Listed {
 public:
  Listed(std::set<pid_t>& list, asio::steady_timer& change, pid_t pid)
      : list_(list), change_(change), pid_(pid) {
    list_.insert(pid);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  ~Listed() {
    list_.erase(pid_);
    change_.cancel();
  }

 private:
  std::set<pid_t>& list_;
  asio::steady_timer& change_;
  pid_t pid_;
};

}  // namespace

ToolRunner::ToolRunner(asio::any_io_executor executor, Containment& containment)
    : executor_(std::move(executor)), containment_(containment), turn_(executor_) {}

asio::awaitable<bool> ToolRunner::wait_for_turn(Deadline deadline) {
  while (pids_.size() >= kToolsMax) {
    if (deadline.passed()) co_return false;
    boost::system::error_code ignored;
    turn_.expires_at(deadline.time());
    co_await turn_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return true;
}

asio::awaitable<ToolOutput> ToolRunner::run(std::vector<std::string> arguments, Deadline deadline,
                                            std::size_t bytes_max) {
  const bool is_its_turn = co_await wait_for_turn(deadline);
  if (!is_its_turn) co_return ToolOutput{.problem = "there was no time left for it"};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) co_return ToolOutput{.problem = std::strerror(errno)};
  UniqueFd writer(ends[1]);
  asio::posix::stream_descriptor reader(executor_, ends[0]);
  const auto [marker_name, marker_value] = containment_.marker();
  // Their complaints are read by a program.
  const ProcessRequest request{
      .arguments = arguments,
      .environment = worker_environment({{"LC_ALL", "C"}}, {}, marker_name, marker_value),
      .standard_output = writer.get(),
      .standard_error = writer.get(),
      .cgroup_fd = containment_.cgroup_fd()};
  auto started = WorkerProcess::start(executor_, request);
  writer = UniqueFd();
  auto* process = std::get_if<WorkerProcess>(&started);
  const auto failure = process != nullptr ? process->wait_for_exec(deadline)
                                          : std::optional(std::get<StartFailure>(started));
  if (failure) co_return ToolOutput{.problem = describe_start_failure(*failure, arguments[0], "")};
  const Listed listed(pids_, turn_, process->pid());
  ToolOutput output;
  auto reading = read_to_end(reader, output.text, bytes_max);
  if (co_await with_deadline(std::move(reading), deadline)) co_return output;
  output.problem = "it was not done in time";
  process->signal_group(SIGTERM);
  auto reading_on = read_to_end(reader, output.text, bytes_max);
  co_await with_deadline(std::move(reading_on), Deadline::after(kEndGrace));
  co_return output;
}

void ToolRunner::kill() noexcept {
  // Those in the set have not been reaped, so their numbers are theirs.
  for (const pid_t pid : pids_) ::kill(-pid, SIGKILL);
}

}  // namespace ddprun
