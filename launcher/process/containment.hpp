// Tracks all processes of a run, so that no process survives the run: neither descendants in other
// sessions nor, if the agent is killed, any process.
//
// Uses three mechanisms. A cgroup for the run, where permitted: each fork inherits the membership,
// and the kernel kills all members at once. The agent is a child subreaper, becomes the parent of
// orphans, and thus finds processes that have moved to another cgroup. A marker, a random word in
// the environment of each worker, is inherited by descendants: the agent searches /proc for it if
// there is no cgroup, the guardian always.
//
// The guardian is a small process that survives the agent until it has killed the others
// (guardian.hpp). Single-threaded.
#pragma once

#include "launcher/process/run_members.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace ddprun {

/// Methods of finding descendants.
enum class ContainmentMode {
  automatic,  ///< a cgroup if available, otherwise the marker
  cgroup,     ///< a cgroup; the constructor throws Error{Errc::system} if unavailable
  marker,     ///< the marker, even if a cgroup is available
};

struct ContainmentSettings {
  ContainmentMode mode = ContainmentMode::automatic;
  /// Folder that the guardian removes if the agent dies first; empty: none.
  std::filesystem::path temporary_folder{};
  int temporary_folder_fd = -1;  ///< descriptor of this folder; outlives the containment
  /// Path of ddprun, for the guardian; empty: ddprun in the folder of this program.
  std::string program{};
};

class Containment {
 public:
  /// Kills processes left by runs whose agent and guardian were killed, then starts the guardian.
  /// Throws Error{Errc::system} if the guardian cannot be started.
  explicit Containment(const ContainmentSettings& settings = {}, const Log& log = {});

  /// Kills the remaining members (waits at most 1 s), removes the cgroup and ends the guardian.
  ~Containment();

  Containment(const Containment&) = delete;
  Containment& operator=(const Containment&) = delete;

  /// Returns ContainmentMode::cgroup or ContainmentMode::marker.
  ContainmentMode mode() const;

  /// Returns true if reap_orphans() must be called when a child has ended.
  bool is_parent_of_orphans() const;

  /// Returns the guardian's PID. Only the destructor and replace_guardian() reap it.
  pid_t guardian_pid() const;

  /// Returns a descriptor that is readable once the guardian has ended, until replace_guardian().
  int guardian_pidfd() const;

  /// Starts another guardian instead of the current one, which may have ended. Throws
  /// Error{Errc::system} on failure.
  void replace_guardian();

  /// Makes the guardian kill members alive at `end`, even if this process is stopped, unless
  /// another call postpones it. After a call that is too late, the members of that time are killed
  /// and new members are safe. Throws like replace_guardian().
  void guard_until(Deadline::Clock::time_point end);

  /// Returns the path of ddprun.
  const std::string& program() const;

  /// Returns the variable that every worker's environment must contain.
  std::pair<std::string, std::string> marker() const;

  /// Returns a descriptor of the cgroup's directory to start workers in, or -1. Valid until the
  /// next call.
  int cgroup_fd();

  /// Returns the live processes of the run. Blocks for at most a second, and only while a process
  /// of this machine is in execve.
  std::vector<pid_t> members() const;

  /// Sends SIGKILL to all members, atomically if there is a cgroup. Does not wait for their end,
  /// but blocks like members().
  void kill() const noexcept;

  /// Returns the members. Blocks like members(), at most until the deadline. Skips members not
  /// found by then.
  PendingExits open_members(Deadline deadline) const;

  /// Sends SIGTERM to open_members() and adds their PIDs to `signalled`. Does not wait for their
  /// end. Returns members that ignore SIGTERM without a signal: helpers that clean up after a
  /// worker and then end ignore it, such as the resource tracker of Python's multiprocessing.
  PendingExits terminate(std::vector<pid_t>& signalled, Deadline deadline) const;

  /// Stops all members and waits at most 1 s until they are stopped. thaw() continues the members
  /// that freeze() has stopped.
  void freeze();
  void thaw();

  /// Sends SIGKILL to the current members and adds their PIDs to `killed`. Does not wait for their
  /// end, but blocks like members(). Members may fork meanwhile, so call it until it returns
  /// nullopt, which means that no members are left.
  std::optional<PendingExits> kill_round(std::vector<pid_t>& killed) const;

  /// Excludes a child from the members until include(). freeze() and thaw() affect it.
  void exclude(pid_t child);
  void include(pid_t child);

  /// Reaps orphans that have become the agent's children. `own`: children that other code reaps.
  void reap_orphans(const std::vector<pid_t>& own) const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
