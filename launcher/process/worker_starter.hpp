// Starts the processes of a group of workers. Runs on the agent's thread.
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/process/containment.hpp"
#include "launcher/process/limited_wait.hpp"
#include "launcher/process/preloaded_python.hpp"
#include "launcher/process/worker.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// A worker whose start has failed.
struct FailedWorker {
  int rank = 0;
  StartFailure failure;
  std::string message;
};

FailedWorker failed_worker(const WorkerSpec& spec, const StartFailure& failure);

class WorkerStarter {
 public:
  /// Workers inherit `page_fd`. The references outlive the starter, and the starter its coroutines.
  /// A null `python` starts all workers by exec.
  WorkerStarter(boost::asio::any_io_executor executor, Containment& containment,
                OutputRouter& router, PreloadedPython* python, int page_fd, Workers& workers);

  /// Starts the workers of `missing` until `must_end` returns true. Moves those whose exec has
  /// succeeded from `missing` to the group's workers; the others stay for the next call. Returns
  /// the first failure.
  boost::asio::awaitable<std::optional<FailedWorker>> start(std::deque<WorkerSpec>& missing,
                                                            std::function<bool()> must_end);

  /// Kills the group's workers and waits at most 1 s for their end.
  boost::asio::awaitable<void> kill_all();

  /// Ends the wait for imports.
  void interrupt();

  /// Ends the waits.
  void close();

 private:
  boost::asio::awaitable<std::optional<FailedWorker>> fork_all(std::deque<WorkerSpec>& missing,
                                                               std::function<bool()> must_end);
  boost::asio::awaitable<std::optional<FailedWorker>> fork_worker(const WorkerSpec& spec);
  boost::asio::awaitable<std::optional<StartFailure>> fork_with_streams(const WorkerSpec& spec);
  boost::asio::awaitable<std::variant<WorkerProcess, StartFailure>> start_process(
      const ProcessRequest& request);
  std::vector<std::string> environment_of(const WorkerSpec& spec) const;
  PreloadRequest preload_request(const std::deque<WorkerSpec>& specs) const;
  boost::asio::awaitable<std::optional<FailedWorker>> wait_for_exec(
      std::deque<WorkerSpec>& missing);

  boost::asio::any_io_executor executor_;
  Containment& containment_;
  OutputRouter& router_;
  PreloadedPython* python_;
  bool is_python_ready_ = false;
  int page_fd_;
  Workers& workers_;
  LimitedWait exec_wait_;
};

}  // namespace ddprun
