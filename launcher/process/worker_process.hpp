// One worker process: its start up to exec, its death, and what the kernel tells of it. The only
// file that uses Boost.Process is worker_process.cpp. Runs on the thread that lives as long as the
// workers do: the parent-death signal is tied to it.
#pragma once

#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <variant>
#include <vector>

namespace ddprun {

/// What the child does between fork and exec, in this order.
enum class StartStep : int {
  fork,              ///< in the parent
  parent_death,      ///< asking to be killed with the agent
  session,           ///< becoming the leader of its own session
  signals,           ///< default handlers
  cgroup,            ///< entering the cgroup, where the kernel does not do it while forking
  affinity,          ///< the CPUs to run on
  standard_streams,  ///< descriptors 0, 1 and 2
  descriptors,       ///< closing all others
  limits,            ///< of open files
  folder,            ///< chdir
  exec,
};

/// The name of `step` as it stands in events, e.g. "exec".
const char* to_string(StartStep step) noexcept;

/// Everything about the process to start, complete: the child allocates and looks up nothing.
struct ProcessRequest {
  std::vector<std::string> arguments;    ///< program (a path) first
  std::vector<std::string> environment;  ///< NAME=value, all of it
  std::string folder;                    ///< to run in; empty: this process'
  std::vector<int> cpus;                 ///< affinity; empty: this process'
  std::uint64_t open_files_max = 0;      ///< soft limit; 0: this process'
  int standard_output = -1;              ///< descriptors above 2; standard input is /dev/null
  int standard_error = -1;
  int kept_descriptor = -1;    ///< inherited under its own number; -1: none
  int cgroup_fd = -1;          ///< directory of the cgroup to start in; -1: this process'
  bool may_use_clone3 = true;  ///< false: as if the kernel (or a seccomp filter) had none
};

/// Why a process did not get past exec.
struct StartFailure {
  StartStep step = StartStep::exec;
  int error_number = 0;  ///< an errno value; ETIMEDOUT: exec did not return in time

  bool operator==(const StartFailure&) const = default;
};

/// How a process ended.
struct ProcessExit {
  int exit_code = 0;  ///< meaningful if signal is 0
  int signal = 0;
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
  ~WorkerProcess();  ///< as close()

  /// Blocks until the process is past exec. A process that failed is reaped.
  std::optional<StartFailure> wait_for_exec(Deadline deadline);

  pid_t pid() const;

  /// Returns when the process has ended; it is then a zombie until reap().
  boost::asio::awaitable<void> wait_for_end();

  /// True if it has ended (reaped or not).
  bool has_ended() const;

  /// After its end by a signal: kills what is left of its process group. Before reap().
  void kill_group_if_killed() noexcept;

  /// Takes the exit status of a process that has ended.
  ProcessExit reap();

  /// Kills the process if it has not ended, reaps it, and ends wait_for_end() with
  /// Error{Errc::closed}. Waits at most 1 s.
  void close() noexcept;

  /// Sends `signal` to the process' group: itself and the descendants that stayed in it. Nothing
  /// happens once it has been reaped, as its number may then belong to others.
  void signal_group(int signal) noexcept;

 private:
  class Impl;
  explicit WorkerProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
