// Collects facts about a worker's failure after its end: its error file, a core dump, and whether
// the out-of-memory killer killed it.
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

/// Returns the process that the out-of-memory killer killed according to this line of the kernel's
/// log.
std::optional<pid_t> memory_kill_in(std::string_view line);

/// Returns the number after the word `oom_kill` in memory.events (cgroup 2) or memory.oom_control
/// (cgroup 1); 0 if missing.
std::int64_t memory_kills_in(std::string_view text);

/// Attributes deaths to the out-of-memory killer, from two sources: the kernel's log, which may be
/// unreadable, and a counter without PIDs. Pure.
class OutOfMemoryKills {
 public:
  void note_named(pid_t pid) { named_.insert(pid); }
  void note_counted(std::int64_t kills) { unclaimed_ += kills; }

  /// Returns true if the SIGKILL that killed `pid` was an out-of-memory kill. Each counted kill
  /// explains one death, unless the log attributes it to another process.
  bool claim(pid_t pid);

 private:
  std::set<pid_t> named_;
  std::int64_t unclaimed_ = 0;
};

/// Observes out-of-memory kills since its construction.
class OutOfMemoryWatch {
 public:
  OutOfMemoryWatch();
  ~OutOfMemoryWatch();

  OutOfMemoryWatch(const OutOfMemoryWatch&) = delete;
  OutOfMemoryWatch& operator=(const OutOfMemoryWatch&) = delete;

  /// Returns true if the kernel killed `pid`, a process that died of SIGKILL not sent by the agent.
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
