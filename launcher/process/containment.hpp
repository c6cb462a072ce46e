// Keeps together everything a run starts, so that nothing of it can survive: neither grandchildren
// in sessions of their own, nor anything at all when the agent itself is killed.
//
// Three ways. A cgroup of the run's own, where the system permits it: every fork inherits the
// membership and the kernel kills all members at once. The agent becomes the parent of orphans
// (child subreaper) and finds those that have moved to another cgroup. A marker, a random word in
// the environment of each worker, which descendants inherit: the agent looks for it in /proc if
// there is no cgroup, the guardian always.
//
// The guardian is a small process that outlives the agent by as long as it takes to kill the rest
// (guardian.hpp). One thread.
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

/// How descendants are found again.
enum class ContainmentMode {
  automatic,  ///< a cgroup if one can be had, else the marker
  cgroup,     ///< a cgroup; the constructor throws Error{Errc::system} if none can be had
  marker,     ///< the marker, even where a cgroup can be had
};

struct ContainmentSettings {
  ContainmentMode mode = ContainmentMode::automatic;
  /// Removed by the guardian if the agent dies before it could; empty: none.
  std::filesystem::path temporary_folder{};
  int temporary_folder_fd = -1;  ///< the same, open for as long as the containment
  /// ddprun, for the guardian; empty: the one in the folder of this program.
  std::string program{};
};

class Containment {
 public:
  /// Starts the guardian, after having ended what is left of runs whose agent and guardian were
  /// both killed. Throws Error{Errc::system} if there can be no guardian.
  explicit Containment(const ContainmentSettings& settings = {}, const Log& log = {});

  /// Kills what is left (waiting at most 1 s), removes the cgroup and ends the guardian.
  ~Containment();

  Containment(const Containment&) = delete;
  Containment& operator=(const Containment&) = delete;

  /// ContainmentMode::cgroup or ContainmentMode::marker.
  ContainmentMode mode() const;

  /// Whether reap_orphans() is to be called when a child has ended.
  bool is_parent_of_orphans() const;

  /// The guardian's; it is reaped only at the end, or when another takes its place.
  pid_t guardian_pid() const;

  /// Can be read when the guardian has ended. Valid until replace_guardian().
  int guardian_pidfd() const;

  /// Starts another guardian in the place of this one, which may have ended. Throws
  /// Error{Errc::system} if there can be none.
  void replace_guardian();

  /// Members that live at `end` are killed, even if this process is stopped then, unless this is
  /// called again before. If it is called too late for that, those that lived have been killed or
  /// are being killed, and new ones are safe. Throws as replace_guardian().
  void guard_until(Deadline::Clock::time_point end);

  /// Path of ddprun.
  const std::string& program() const;

  /// What every worker's environment must contain.
  std::pair<std::string, std::string> marker() const;

  /// A descriptor of the cgroup's directory to start workers in, or -1. Valid until the next call.
  int cgroup_fd();

  /// The processes of the run that live now. Blocks for at most 100 ms, and only while a process
  /// of this machine is in execve.
  std::vector<pid_t> members() const;

  /// Sends SIGKILL to every member, at once where there is a cgroup. Does not wait.
  void kill() const noexcept;

  /// Asks the members to end by SIGTERM and adds the pids of those asked; does not wait. Members
  /// that ignore it are only to be waited for: so do helpers that end by themselves when they have
  /// tidied up after a worker, such as the process in which Python's multiprocessing keeps account
  /// of shared memory. Members that are not found by the deadline are not asked.
  PendingExits ask(std::vector<pid_t>& asked, Deadline deadline) const;

  /// Stops every member, waiting at most 1 s for that, and lets those go on again that freeze() has
  /// stopped.
  void freeze();
  void thaw();

  /// Kills the members that there are now and adds their pids if they are not among them; does not
  /// wait. Members may fork meanwhile, so it is to be called until it returns nothing: no member is
  /// left.
  std::optional<PendingExits> kill_round(std::vector<pid_t>& met) const;

  /// Takes the exit status of orphans that have become the agent's children; `own` are the
  /// children whose status other code takes.
  void reap_orphans(const std::vector<pid_t>& own) const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
