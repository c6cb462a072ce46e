// Reads /proc. Tolerates processes that end at any moment. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// From /proc/PID/stat: the state letter ('R', 'S', 'D', 'Z' …, or '\0' if there is no such
/// process), the kernel's flags, and for an exiting process the status that waitpid will return,
/// which is set before the process releases its memory and mutexes.
struct ProcessState {
  char letter = '\0';
  unsigned long flags = 0;
  /// nullopt during execve, before the new program has its environment, and without permission to
  /// trace the process.
  std::optional<std::size_t> environment_bytes;
  std::optional<int> exit_status;

  /// Returns true if the process is exiting, which is irreversible.
  bool is_exiting() const;

  bool is_kernel_thread() const;
};

/// Parses the text of /proc/PID/stat. Malformed text results in the state of a missing process.
ProcessState parse_process_state(std::string_view stat_text);

ProcessState process_state(pid_t pid);

/// Returns true if the process has ended but has not been reaped; false while any of its threads
/// remains, even if the first one has ended.
bool is_zombie(pid_t pid);

/// Returns true if, by the text of /proc/PID/status, the process ignores the signal.
bool status_ignores(std::string_view status_text, int signal);

/// Returns true if the process exists and ignores the signal.
bool ignores(pid_t pid, int signal);

/// IDs of a user and a group.
struct UserIds {
  uid_t user = 0;
  gid_t group = 0;

  bool operator==(const UserIds&) const = default;
};

/// Returns the user of a process, from the text of /proc/PID/status: the first of its real,
/// effective and saved user IDs that is not root's, with the corresponding group; root only if all
/// three are. Returns nullopt if the text is malformed.
std::optional<UserIds> user_of(std::string_view status_text);

/// Returns the user of a process; nullopt also if there is no such process.
std::optional<UserIds> user_of(pid_t pid);

/// Returns the name of the process' executable without its folder ("python3.11"); empty if
/// unreadable.
std::string executable_name(pid_t pid);

/// Returns true if the process is a Python interpreter.
bool is_python(pid_t pid);

/// Returns true if a debugger is attached to the process.
bool is_traced(pid_t pid);

/// Returns true if the process has a handler for the signal.
bool catches(pid_t pid, int signal);

/// Returns the IDs of the process' threads, beginning with the first one (the process ID).
std::vector<pid_t> thread_ids(pid_t pid);

/// Returns the CPU time of all live threads of the process; nullopt if the kernel does not report
/// it. Every run of a thread increases it.
std::optional<std::chrono::nanoseconds> run_time(pid_t pid);

struct ThreadTime {
  std::chrono::nanoseconds run{0};     ///< CPU time
  std::chrono::nanoseconds queued{0};  ///< time for which it was ready to run but had no CPU
};

/// Returns the times of the main thread; nullopt if the kernel does not report them.
std::optional<ThreadTime> main_thread_time(pid_t pid);

/// Returns the name of a thread; empty if there is no such thread.
std::string thread_name(pid_t pid, pid_t thread);

/// Returns a line for each thread: its name, its state and the kernel function in which it waits.
std::string thread_states(pid_t pid);

// Maximum bytes, for some 20,000 mappings. Processes may have 65,530, mostly without a file.
inline constexpr std::size_t kMapsBytesMax = 2U << 20;

/// Returns the text of /proc/PID/maps, at most kMapsBytesMax. Only the same user and privileged
/// processes may read it.
std::string memory_map(pid_t pid);

/// Returns true if the initial environment of the process has the variable `name` with a value that
/// contains `value`. Returns nullopt during execve: the old program's environment is gone and the
/// new one's does not exist yet. Returns false if the environment is not readable.
std::optional<bool> has_in_environment(pid_t pid, std::string_view name, std::string_view value);

/// Calls `visit` with the ID of each process, in ascending order.
void for_each_process(const std::function<void(pid_t)>& visit);

/// Returns the children of a process, including those that have ended but have not been reaped.
std::vector<pid_t> children_of(pid_t pid);

/// Returns the children that the main thread has created, without reading the other threads.
std::vector<pid_t> children_of_main_thread(pid_t pid);

/// Returns a process and its descendants, at most `count_max`, parents first.
std::vector<pid_t> with_descendants(pid_t pid, std::size_t count_max);

/// Returns true if both processes execute the same file.
bool run_same_program(pid_t one, pid_t other);

/// Follows single children of wrappers, such as shells that wait, to the program.
pid_t program_behind(pid_t pid);

/// Returns the children of this process.
std::vector<pid_t> children();

}  // namespace ddprun
