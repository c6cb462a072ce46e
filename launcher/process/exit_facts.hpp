// What can be found out about a worker's failure once it has ended: its own error file, a core
// dump, and whether the kernel killed it because memory ran out.
#pragma once

#include "launcher/process/worker_group.hpp"
#include "launcher/process/worker_process.hpp"
#include "launcher/report/event.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun {

/// The process that the out-of-memory killer killed according to this line of the kernel's log.
std::optional<pid_t> memory_kill_in(std::string_view line);

/// The number behind the word `oom_kill` in memory.events (cgroup 2) or memory.oom_control
/// (cgroup 1); 0 if it is not there.
std::int64_t memory_kills_in(std::string_view text);

/// Whose deaths were out-of-memory kills, from the two things that the kernel tells: a log with
/// names, which may be unreadable or name processes by another container's numbers, and a counter
/// without names. Pure.
class OutOfMemoryKills {
 public:
  void note_named(pid_t pid) { named_.insert(pid); }
  void note_counted(std::int64_t kills) { unclaimed_ += kills; }

  /// Whether the SIGKILL that `pid` died of was one of these. Each that was counted explains one
  /// death.
  bool claim(pid_t pid);

 private:
  std::set<pid_t> named_;
  std::int64_t unclaimed_ = 0;
};

/// Knows which out-of-memory kills happened since it was made.
class OutOfMemoryWatch {
 public:
  OutOfMemoryWatch();
  ~OutOfMemoryWatch();

  OutOfMemoryWatch(const OutOfMemoryWatch&) = delete;
  OutOfMemoryWatch& operator=(const OutOfMemoryWatch&) = delete;

  /// Whether the kernel killed `pid`, a process that died of SIGKILL not sent by the agent.
  bool has_killed(pid_t pid);

 private:
  int kernel_log_ = -1;
  std::string counter_file_;
  std::int64_t kills_seen_ = 0;
  OutOfMemoryKills kills_;
};

/// Fills in the fields of `exited` that are not in `exit`.
void add_exit_facts(WorkerExited& exited, const ProcessExit& exit, const WorkerSpec& spec,
                    OutOfMemoryWatch& out_of_memory);

}  // namespace ddprun
