// The start of a process from its fork to its exec: everything is prepared before the fork, and the
// child does its steps by raw system calls alone. Knows nothing of what becomes of the process
// afterwards (see worker_process.hpp). Runs on a thread that lives as long as the process shall:
// the parent-death signal is tied to it.
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

/// The steps of a start in their order; the child does those between fork and exec.
enum class StartStep : int {
  files,  ///< folders, log files, pipes, the cgroup
  fork,
  parent_death,      ///< asking to be killed with the agent
  session,           ///< becoming the leader of its own session
  signals,           ///< default handlers
  cgroup,            ///< entering the cgroup, where the kernel does not do it while forking
  affinity,          ///< the CPUs to run on, and the memory near them
  standard_streams,  ///< descriptors 0, 1 and 2
  descriptors,       ///< closing all others
  limits,            ///< of open files, memory and processor time
  folder,            ///< chdir
  user,              ///< becoming another user
  exec,
  thread,  ///< of the agent, which watches all workers
};

/// The name of `step` as it stands in events, e.g. "exec".
const char* to_string(StartStep step) noexcept;

/// Everything about the process to start, complete: the child allocates and looks up nothing.
struct ProcessRequest {
  std::string program;                   ///< a path; empty: the first argument
  std::vector<std::string> arguments;    ///< the program's name first
  std::vector<std::string> environment;  ///< NAME=value, all of it
  std::string folder;                    ///< to run in; empty: this process'
  std::vector<int> cpus;                 ///< affinity; empty: this process'
  int memory_node = -1;                  ///< NUMA node to prefer; -1: this process' policy
  std::uint64_t open_files_max = 0;      ///< soft limit; 0: this process'
  int standard_input = -1;               ///< a descriptor above 2; -1: /dev/null
  int standard_output = -1;              ///< descriptors above 2
  int standard_error = -1;
  int kept_descriptor = -1;           ///< inherited under its own number; -1: none
  int cgroup_fd = -1;                 ///< directory of the cgroup to start in; -1: this process'
  std::uint64_t data_bytes_max = 0;   ///< of writable memory; 0: this process' limit
  std::uint64_t cpu_seconds_max = 0;  ///< 0: this process' limit
  std::optional<UserIds> user{};      ///< without other groups; empty: this process'
  bool outlives_agent = false;  ///< no parent-death signal; ignores signals, is not killed first
  bool may_use_clone3 = true;   ///< false: as if the kernel (or a seccomp filter) had none
};

/// Why a process did not get past exec.
struct StartFailure {
  StartStep step = StartStep::exec;
  int error_number = 0;  ///< an errno value; ETIMEDOUT: exec timed out

  bool operator==(const StartFailure&) const = default;
};

/// What the child writes into the status pipe if it cannot get past exec.
struct StatusRecord {
  StartStep step;
  int error_number;
};

/// A process between its fork and its exec.
struct ForkedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd status;  ///< ends with exec; otherwise there is a StatusRecord in it
};

/// Keeps other processes of this process' user from reading its memory and its descriptors (ptrace,
/// /proc/PID/mem, /proc/PID/fd), for good, and those of its children until their exec. There is no
/// core file of it then. Throws Error{Errc::system} if that is refused.
void make_memory_private();

/// Forks. Does not wait for exec, so that several processes start at the same time. While it runs
/// in a process with private memory, the kernel takes this process for its child when memory is
/// short.
std::variant<ForkedProcess, StartFailure> fork_process(const ProcessRequest& request);

}  // namespace ddprun
