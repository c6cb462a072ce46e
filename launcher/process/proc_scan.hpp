// What /proc tells of processes: few lines of text, parsed with care because a process may end at
// any moment. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// From /proc/PID/stat: the state letter ('R', 'S', 'D', 'Z' …, or '\0' if there is no such
/// process), the kernel's flags, and of a process on its way out what waitpid will give as its
/// status, which is set before the process lets go of its memory and mutexes.
struct ProcessState {
  char letter = '\0';
  unsigned long flags = 0;
  /// Empty in execve, before the new program has its environment, and without permission to trace
  /// the process.
  std::optional<std::size_t> environment_bytes;
  std::optional<int> exit_status;

  /// The process is on its way out: its exit cannot be stopped any more.
  bool is_exiting() const;

  bool is_kernel_thread() const;
};

/// Parses the text of /proc/PID/stat. Malformed text gives a ProcessState of no process.
ProcessState parse_process_state(std::string_view stat_text);

ProcessState process_state(pid_t pid);

/// True if the process has ended but has not been reaped. False while any of its threads is left,
/// even if the first one has ended.
bool is_zombie(pid_t pid);

/// True if the text of /proc/PID/status says that the process ignores the signal.
bool status_ignores(std::string_view status_text, int signal);

/// True if the process exists and ignores the signal.
bool ignores(pid_t pid, int signal);

/// A user and a group by their numbers.
struct UserIds {
  uid_t user = 0;
  gid_t group = 0;

  bool operator==(const UserIds&) const = default;
};

/// The user of a process, from the text of /proc/PID/status: the first of its real, effective and
/// saved user ids that is not root's, with the group beside it; root only if all three are. Empty
/// if the text is malformed: the user is unknown.
std::optional<UserIds> user_of(std::string_view status_text);

/// Empty also if there is no such process.
std::optional<UserIds> user_of(pid_t pid);

/// The file that the process executes, without its folder ("python3.11"); empty if it is not told.
std::string executable_name(pid_t pid);

/// True if the process has a handler for the signal.
bool catches(pid_t pid, int signal);

/// The ids of the process' threads, the first one's (the process' own) first.
std::vector<pid_t> thread_ids(pid_t pid);

/// The name of one of its threads; empty if there is no such thread.
std::string thread_name(pid_t pid, pid_t thread);

/// A line for each thread: its name, its state and what it waits for in the kernel.
std::string thread_states(pid_t pid);

// Some 20,000 mappings; a process may have 65,530, of which most belong to no file.
inline constexpr std::size_t kMapsBytesMax = 2U << 20;

/// The text of /proc/PID/maps, which only the same user and the mighty may read; no more of it than
/// kMapsBytesMax.
std::string memory_map(pid_t pid);

/// True if the environment that the process was started with has the variable `name` with a text
/// that contains `value`. Empty while the process is in execve: between its old and its new
/// program it has no environment. False if the environment may not be read.
std::optional<bool> has_in_environment(pid_t pid, std::string_view name, std::string_view value);

/// Calls `visit` with the id of each process, in ascending order.
void for_each_process(const std::function<void(pid_t)>& visit);

/// The children of a process, those that have ended but have not been reaped included.
std::vector<pid_t> children_of(pid_t pid);

/// Those of this process.
std::vector<pid_t> children();

}  // namespace ddprun
