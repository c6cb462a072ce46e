// Starts a process, from fork to exec. Everything is prepared before the fork, and the child
// makes only raw system calls. Does not manage the process afterwards (see worker_process.hpp).
// Runs on a thread that outlives the process, because the parent-death signal is bound to that
// thread.
#pragma once

#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <variant>
#include <vector>

namespace ddprun {

/// Steps of a start, in order. The child executes the steps between fork and exec.
enum class StartStep : int {
  files,  ///< folders, log files, pipes, the cgroup
  fork,
  parent_death,      ///< requests the parent-death signal
  session,           ///< becomes the leader of its own session
  signals,           ///< resets signal handlers
  cgroup,            ///< enters the cgroup, if the kernel has not done so at the fork
  affinity,          ///< CPU affinity, and memory near those CPUs
  standard_streams,  ///< descriptors 0, 1 and 2
  descriptors,       ///< closes all other descriptors
  limits,            ///< limits of open files, memory and processor time
  folder,            ///< chdir
  user,              ///< switches to another user
  exec,
  thread,  ///< the agent's thread that watches all workers
};

/// Returns the name of `step` in events, for example "exec".
const char* to_string(StartStep step) noexcept;

/// Complete description of the process to start: the child neither allocates nor looks up anything.
struct ProcessRequest {
  std::string program;                   ///< path; empty: the first argument
  std::vector<std::string> arguments;    ///< the program's name first
  std::vector<std::string> environment;  ///< NAME=value; complete
  std::string folder;                    ///< working directory; empty: that of this process
  std::vector<int> cpus;                 ///< affinity; empty: that of this process
  int memory_node = -1;                  ///< preferred NUMA node; -1: policy of this process
  std::uint64_t open_files_max = 0;      ///< soft limit; 0: that of this process
  int standard_input = -1;               ///< a descriptor above 2; -1: /dev/null
  int standard_output = -1;              ///< descriptors above 2
  int standard_error = -1;
  int kept_descriptor = -1;  ///< inherited under the same number; -1: none
  int cgroup_fd = -1;        ///< directory of the cgroup to start in; -1: that of this process
  std::uint64_t data_bytes_max = 0;   ///< of writable memory; 0: limit of this process
  std::uint64_t cpu_seconds_max = 0;  ///< 0: limit of this process
  std::optional<UserIds> user{};    ///< without supplementary groups; nullopt: that of this process
  bool outlives_agent = false;      ///< no parent-death signal or raised OOM score; ignores signals
  std::string inspection_socket{};  ///< name for preload_inspection.py; empty: none
  bool may_use_clone3 = true;       ///< false: simulates a kernel or seccomp filter without clone3
};

/// Reason why the exec of a process has not succeeded.
struct StartFailure {
  StartStep step = StartStep::exec;
  int error_number = 0;  ///< errno value; ETIMEDOUT: exec timed out

  bool operator==(const StartFailure&) const = default;
};

/// Written by the child into the status pipe if it cannot exec.
struct StatusRecord {
  StartStep step;
  int error_number;
};

/// A process between its fork and its exec.
struct ForkedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd status;  ///< ends with exec, otherwise contains a StatusRecord
};

/// Prevents other processes of the same user from reading the memory and descriptors of this
/// process (ptrace, /proc/PID/mem, /proc/PID/fd), permanently, and those of its children until
/// their exec. Also disables core dumps. Throws Error{Errc::system} on failure.
void make_memory_private();

/// Forks. Does not wait for exec, so that several processes start at the same time. If this process
/// has private memory, its OOM score is temporarily that of the child.
std::variant<ForkedProcess, StartFailure> fork_process(const ProcessRequest& request);

}  // namespace ddprun
