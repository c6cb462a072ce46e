// One worker process: its start, its end, and the kernel's information about it. The only file that
// uses Boost.Process is worker_process.cpp. Runs on the agent's thread.
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

/// Exit code of a process whose status could not be read: never a success.
inline constexpr int kUnknownExitCode = 255;

/// End of a process.
struct ProcessExit {
  int exit_code = 0;  ///< meaningful if signal is 0
  int signal = 0;
  int wait_error = 0;  ///< errno of waitid; 0: the exit status has been read
  bool has_dumped_core = false;
  std::int64_t peak_memory_bytes = 0;
};

class WorkerProcess {
 public:
  /// Forks. Does not wait for exec, so that several processes start at the same time. Throws
  /// Error{Errc::system} if the process cannot be watched; it has then been killed.
  static std::variant<WorkerProcess, StartFailure> start(
      const boost::asio::any_io_executor& executor, const ProcessRequest& request);

  /// Takes over a process that another process has forked. It must become a child of this process
  /// before start_failure(). Throws like start().
  static WorkerProcess adopt(const boost::asio::any_io_executor& executor, ForkedProcess forked);

  WorkerProcess(WorkerProcess&&) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) noexcept;
  ~WorkerProcess();  ///< calls close() with a limit of 1 s

  /// Returns a descriptor that is readable when the exec has succeeded or failed.
  int exec_notice() const;

  /// Must be called when exec_notice() is readable or the wait is given up. Returns why the exec
  /// has not succeeded; the process has then been killed.
  std::optional<StartFailure> start_failure();

  pid_t pid() const;

  /// Returns when the process has ended and can be reaped; it is then a zombie until reap(). While
  /// another process traces it, it has not ended.
  boost::asio::awaitable<void> wait_for_end();

  /// Returns true if the process has ended (reaped or not).
  bool has_ended() const;

  /// If a signal ended the process, sends SIGTERM to the rest of its process group. Call before
  /// reap().
  void end_group_if_killed() noexcept;

  /// Returns the exit status of a process that has ended.
  ProcessExit reap();

  /// Kills the process unless it has ended, reaps it, and ends wait_for_end() with
  /// Error{Errc::closed}. A process that has not ended at the deadline is left to init.
  void close(Deadline deadline) noexcept;

  /// Sends `signal` to the process group: the process and the descendants that stayed in it. Does
  /// nothing once the process has been reaped, here or by other code, since its PID may have been
  /// reused. Before exec, the signal has its default action.
  void signal_group(int signal) noexcept;

 private:
  class Impl;
  explicit WorkerProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
