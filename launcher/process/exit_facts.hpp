// What can be found out about a worker's failure once it has ended: its own error file, a core
// dump, and whether the kernel killed it because memory ran out.
#pragma once

#include "launcher/process/worker_group.hpp"
#include "launcher/process/worker_process.hpp"
#include "launcher/report/event.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun {

/// True if `line` of the kernel's log says that the out-of-memory killer killed `pid`.
bool tells_of_memory_kill(std::string_view line, pid_t pid);

/// The number behind the word `oom_kill` in memory.events (cgroup 2) or memory.oom_control
/// (cgroup 1); 0 if it is not there.
std::int64_t memory_kills_in(std::string_view text);

/// Knows which out-of-memory kills happened since it was made.
class OutOfMemoryWatch {
 public:
  OutOfMemoryWatch();
  ~OutOfMemoryWatch();

  OutOfMemoryWatch(const OutOfMemoryWatch&) = delete;
  OutOfMemoryWatch& operator=(const OutOfMemoryWatch&) = delete;

  /// Whether the kernel killed `pid`, a process that died of SIGKILL not sent by the agent: its log
  /// names the process, or else the cgroup's counter has risen since the last question.
  bool has_killed(pid_t pid);

 private:
  int kernel_log_ = -1;
  std::string counter_file_;
  std::int64_t kills_seen_ = 0;
};

/// Fills in the fields of `exited` that are not in `exit`.
void add_exit_facts(WorkerExited& exited, const ProcessExit& exit, const WorkerSpec& spec,
                    OutOfMemoryWatch& out_of_memory);

}  // namespace ddprun
