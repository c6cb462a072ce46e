// Runs small programs that inspect workers, such as debuggers: contained like workers, with limits
// of time, memory, output and number. Runs on the agent's thread.
#pragma once

#include "launcher/process/containment.hpp"
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/worker_process.hpp"
#include "rendezvous/base/async_condition.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Output of a tool.
struct ToolOutput {
  std::string text;     ///< both streams, interleaved
  std::string problem;  ///< why the output is missing or incomplete; empty: complete
};

/// The program to run.
struct ToolRequest {
  std::vector<std::string> arguments;  ///< the program's name first
  int program_fd = -1;                 ///< -1: the first argument is the program's path
  int standard_input = -1;             ///< descriptor above 2; -1: /dev/null
  std::size_t output_bytes_max = 0;    ///< further output is dropped
  std::uint64_t data_bytes_max = 0;    ///< of writable memory; 0: limit of this process
  std::uint64_t cpu_seconds_max = 0;   ///< 0: limit of this process
};

/// Condition and user for starting a tool.
struct ToolStart {
  std::optional<UserIds> user{};  ///< can read the tool's environment; nullopt: this process' user
  std::string objection{};        ///< reason not to start the tool; empty: none
};

struct RunningTool;

class ToolRunner {
 public:
  /// Maximum running tools. Debuggers of programs with many symbols take some hundred MiB each.
  static constexpr std::size_t kToolsMax = 8;

  /// `containment` outlives the runner, and the runner its coroutines.
  ToolRunner(boost::asio::any_io_executor executor, Containment& containment);

  /// Maximum writable memory, far above what gdb needs for a program with PyTorch: each of its
  /// threads, one per CPU, reserves 64 MiB without using it.
  static constexpr std::uint64_t kDataBytesMax = 8ULL << 30;
  /// Ends tools that have outlived the agent; otherwise their deadline passes earlier.
  static constexpr std::uint64_t kCpuSecondsMax = 300;

  /// Runs a program; waits while kToolsMax tools are running. `prepare` is called after the wait,
  /// during which the inspected process may have changed. The caller keeps the descriptors of the
  /// request open until this returns. At the deadline the tool is asked to end, and killed if it
  /// does not; a tool that hangs in the kernel even then is abandoned.
  boost::asio::awaitable<ToolOutput> run(ToolRequest request, std::function<ToolStart()> prepare,
                                         Deadline deadline);

  /// Sets the deadline of running and waiting tools to now.
  void interrupt();

  /// Kills the running tools, whose run() then returns.
  void kill() noexcept;

  /// Returns the processes of the running tools. Other code must not reap them.
  std::vector<pid_t> pids() const;

 private:
  class Turn;

  boost::asio::awaitable<bool> wait_for_turn(Deadline deadline);
  ProcessRequest process_request(const ToolRequest& request, const ToolStart& start, int output);
  boost::asio::awaitable<void> end(WorkerProcess& process);

  boost::asio::any_io_executor executor_;
  Containment& containment_;
  std::map<pid_t, RunningTool*> running_;  ///< in the frames of run()
  std::size_t turns_ = 0;                  ///< in use; at most kToolsMax
  std::uint64_t interruptions_ = 0;
  AsyncCondition turn_;  ///< a turn has ended
};

}  // namespace ddprun
