// Runs small programs that look at workers, such as debuggers: contained like workers, bounded in
// time, memory, output and number. Runs on the agent's one thread.
#pragma once

#include "launcher/process/containment.hpp"
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/worker_process.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// What a tool said.
struct ToolOutput {
  std::string text;     ///< both of its streams, as they came
  std::string problem;  ///< why there is none, or why there may be more; empty: it ran to its end
};

/// What to run.
struct ToolRequest {
  std::vector<std::string> arguments;  ///< the program's name first
  int program_fd = -1;                 ///< -1: the first argument is the program's path
  int standard_input = -1;             ///< a descriptor above 2; -1: /dev/null
  std::size_t output_bytes_max = 0;    ///< what is printed beyond it is dropped
  std::uint64_t data_bytes_max = 0;    ///< of writable memory; 0: this process' limit
  std::uint64_t cpu_seconds_max = 0;   ///< 0: this process' limit
};

/// How a tool is to be started, if it is.
struct ToolStart {
  std::optional<UserIds> user{};  ///< that may read the tool's environment; empty: this process'
  std::string objection{};        ///< why it must not be started; empty: it may be
};

struct RunningTool;

class ToolRunner {
 public:
  /// Debuggers of programs with very many symbols take some hundred MiB each.
  static constexpr std::size_t kToolsMax = 8;

  /// `containment` outlives the runner, and the runner its coroutines.
  ToolRunner(boost::asio::any_io_executor executor, Containment& containment);

  /// Far above what gdb takes for a program with PyTorch in it. Of writable memory: each of its
  /// threads, of which there are as many as CPUs, reserves 64 MiB that it does not use.
  static constexpr std::uint64_t kDataBytesMax = 8ULL << 30;
  /// A tool's deadline passes first; this ends a tool that has outlived the agent.
  static constexpr std::uint64_t kCpuSecondsMax = 300;

  /// Runs a program; waits for its turn if kToolsMax run already. `prepare` is called at its turn:
  /// what the tool inspects may have changed during the wait. The descriptors of the request stay
  /// open until the end. At the deadline the tool is told to end, and killed if it does not do so
  /// at once; one that hangs in the kernel even then is left to it.
  boost::asio::awaitable<ToolOutput> run(ToolRequest request, std::function<ToolStart()> prepare,
                                         Deadline deadline);

  /// For those that run or wait for their turn the deadline is now.
  void interrupt();

  /// Kills those that run, whose run() then returns.
  void kill() noexcept;

  /// Their status is nobody else's to take.
  std::vector<pid_t> pids() const;

 private:
  class Turn;

  boost::asio::awaitable<bool> wait_for_turn(Deadline deadline);
  ProcessRequest process_request(const ToolRequest& request, const ToolStart& start, int output);
  boost::asio::awaitable<void> end(WorkerProcess& process);

  boost::asio::any_io_executor executor_;
  Containment& containment_;
  std::map<pid_t, RunningTool*> running_;  ///< in the frames of run()
  std::size_t turns_ = 0;                  ///< taken, at most kToolsMax
  std::uint64_t interruptions_ = 0;
  boost::asio::steady_timer turn_;  ///< never expires; a wait is cancelled when a turn is over
};

}  // namespace ddprun
