// One worker process as the agent holds it: its start, its death, and what the kernel tells of it.
// The only file that uses Boost.Process is worker_process.cpp. Runs on the agent's one thread.
#pragma once

#include "launcher/process/process_start.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <sys/types.h>
#include <variant>

namespace ddprun {

/// Stands for that of a process whose exit status could not be read: never a success.
inline constexpr int kUnknownExitCode = 255;

/// How a process ended.
struct ProcessExit {
  int exit_code = 0;  ///< meaningful if signal is 0
  int signal = 0;
  int wait_error = 0;  ///< errno of waitid; 0: the exit status has been read
  bool has_dumped_core = false;
  std::int64_t peak_memory_bytes = 0;
};

class WorkerProcess {
 public:
  /// Forks. Does not wait for exec, so that several processes start at the same time.
  static std::variant<WorkerProcess, StartFailure> start(
      const boost::asio::any_io_executor& executor, const ProcessRequest& request);

  WorkerProcess(WorkerProcess&&) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) noexcept;
  ~WorkerProcess();  ///< as close(), waiting at most 1 s

  /// Can be read once the process is past exec, or has failed on its way there.
  int exec_notice() const;

  /// To be asked when exec_notice() can be read, or when it is given up: why the process is not
  /// past exec. Then it has been killed.
  std::optional<StartFailure> start_failure();

  pid_t pid() const;

  /// Returns when the process has ended; it is then a zombie until reap().
  boost::asio::awaitable<void> wait_for_end();

  /// True if it has ended (reaped or not).
  bool has_ended() const;

  /// After its end by a signal: sends SIGTERM to what is left of its process group. Before reap().
  void end_group_if_killed() noexcept;

  /// Takes the exit status of a process that has ended.
  ProcessExit reap();

  /// Kills the process if it has not ended, reaps it, and ends wait_for_end() with
  /// Error{Errc::closed}. A process that has not ended at the deadline is left to the kernel.
  void close(Deadline deadline) noexcept;

  /// Sends `signal` to the process' group: itself and the descendants that stayed in it. Nothing
  /// happens once it has been reaped, here or by other code, as its number may then belong to
  /// others. What comes before exec finds the default handlers.
  void signal_group(int signal) noexcept;

 private:
  class Impl;
  explicit WorkerProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
