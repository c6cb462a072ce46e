#include "launcher/ssh/child_process.hpp"

#include "launcher/process/limited_wait.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun::ssh {

namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

// A network file system can delay exec.
constexpr auto kExecLimit = 60s;

// A process that ssh starts for other sessions (ControlPersist) keeps its standard error open.
constexpr auto kStreamGrace = 2s;

// Capacity of a pipe.
constexpr std::size_t kPieceBytesMax = 64U << 10;

struct Pipe {
  UniqueFd reader, writer;
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

ChildProcess::ChildProcess(const asio::any_io_executor& executor)
    : executor_(executor),
      input_(executor),
      output_(executor),
      error_(executor),
      streams_ended_(executor) {}

asio::awaitable<std::optional<StartFailure>> ChildProcess::start(ProcessRequest request) {
  auto in = make_pipe();
  auto out = make_pipe();
  auto error = make_pipe();
  if (!in || !out || !error) {
    co_return StartFailure{.step = StartStep::fork, .error_number = errno};
  }
  request.standard_input = in->reader.get();
  request.standard_output = out->writer.get();
  request.standard_error = error->writer.get();
  auto started = WorkerProcess::start(executor_, request);
  if (const auto* failure = std::get_if<StartFailure>(&started)) co_return *failure;
  process_.emplace(std::get<WorkerProcess>(std::move(started)));
  input_.assign(in->writer.release());
  output_.assign(out->reader.release());
  error_.assign(error->reader.release());
  LimitedWait exec(executor_);
  exec.begin(kExecLimit);
  const int notice = process_->exec_notice();
  co_await exec.until_readable(notice);
  co_return process_->start_failure();
}

asio::awaitable<int> ChildProcess::run(Receive on_output, Receive on_error) {
  auto output = asio::co_spawn(executor_, read(output_, on_output), asio::deferred);
  auto error = asio::co_spawn(executor_, read(error_, on_error), asio::deferred);
  auto end = asio::co_spawn(executor_, wait_for_end(), asio::deferred);
  auto all =
      asio::experimental::make_parallel_group(std::move(output), std::move(error), std::move(end));
  auto ended = co_await all.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  for (const auto& failure : {std::get<1>(ended), std::get<2>(ended), std::get<3>(ended)}) {
    if (failure) std::rethrow_exception(failure);
  }
  co_return exit_code_;
}

asio::awaitable<void> ChildProcess::read(asio::posix::stream_descriptor& stream,
                                         const Receive& receive) {
  std::vector<char> buffer(kPieceBytesMax);
  while (true) {
    boost::system::error_code error;
    const auto bytes = co_await stream.async_read_some(
        asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    auto receiving = receive(std::string_view(buffer.data(), bytes));
    co_await std::move(receiving);
  }
  if (--readers_ == 0) streams_ended_.notify_all();
}

asio::awaitable<void> ChildProcess::wait_for_end() {
  co_await process_->wait_for_end();
  const auto exit = process_->reap();
  exit_code_ = exit.signal != 0 ? -exit.signal : exit.exit_code;
  const auto deadline = Deadline::after(kStreamGrace);
  while (readers_ > 0 && !deadline.passed()) co_await streams_ended_.wait_until(deadline);
  boost::system::error_code ignored;
  output_.cancel(ignored);
  error_.cancel(ignored);
}

void ChildProcess::signal(int number) noexcept {
  if (process_) process_->signal_group(number);
}

}  // namespace ddprun::ssh
