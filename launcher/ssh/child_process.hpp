// A process with pipes to its three standard streams. Includes Asio, so it is for .cpp files. One
// thread.
#pragma once

#include "launcher/process/worker_process.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::ssh {

class ChildProcess {
 public:
  /// Takes each piece of a stream.
  using Take = std::function<boost::asio::awaitable<void>(std::string_view)>;

  explicit ChildProcess(const boost::asio::any_io_executor& executor);

  /// Starts it. Returns why it could not be started, or nothing when it is past exec.
  boost::asio::awaitable<std::optional<StartFailure>> start(ProcessRequest request);

  /// Reads both streams until they end, or until shortly after the end of the process if others
  /// hold them open. Returns its exit code, or minus the signal that ended it.
  boost::asio::awaitable<int> run(Take take_output, Take take_error);

  /// Its standard input, to be written.
  boost::asio::posix::stream_descriptor& input() { return input_; }

  void signal(int number) noexcept;

 private:
  boost::asio::awaitable<void> read(boost::asio::posix::stream_descriptor& stream,
                                    const Take& take);
  boost::asio::awaitable<void> wait_for_end();

  boost::asio::any_io_executor executor_;
  boost::asio::posix::stream_descriptor input_, output_, error_;
  boost::asio::steady_timer grace_;
  std::optional<WorkerProcess> process_;
  int readers_ = 2;
  int exit_code_ = 0;
};

}  // namespace ddprun::ssh
