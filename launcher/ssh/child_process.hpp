// A process with pipes to its three standard streams. Includes Asio; only for .cpp files.
// Single-threaded.
#pragma once

#include "launcher/process/worker_process.hpp"
#include "rendezvous/base/async_condition.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::ssh {

class ChildProcess {
 public:
  /// Receives each piece of a stream; the next one is read after it has returned.
  using Receive = std::function<boost::asio::awaitable<void>(std::string_view)>;

  explicit ChildProcess(const boost::asio::any_io_executor& executor);

  /// Starts the process and waits for its exec. Returns the failure, if any.
  boost::asio::awaitable<std::optional<StartFailure>> start(ProcessRequest request);

  /// Reads both streams until they end, or until 2 s after the end of the process if other
  /// processes keep them open. Returns the exit code, or the negated signal that killed the
  /// process.
  boost::asio::awaitable<int> run(Receive on_output, Receive on_error);

  /// Returns the write end of the process' standard input.
  boost::asio::posix::stream_descriptor& input() { return input_; }

  /// Sends a signal to the process group if the process has started.
  void signal(int number) noexcept;

 private:
  boost::asio::awaitable<void> read(boost::asio::posix::stream_descriptor& stream,
                                    const Receive& receive);
  boost::asio::awaitable<void> wait_for_end();

  boost::asio::any_io_executor executor_;
  boost::asio::posix::stream_descriptor input_, output_, error_;
  AsyncCondition streams_ended_;
  std::optional<WorkerProcess> process_;
  int readers_ = 2;
  int exit_code_ = 0;
};

}  // namespace ddprun::ssh
