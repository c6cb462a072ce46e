// Finds and kills all processes of a run: by the run's cgroup if there is one, by a marker in their
// environment, and as orphans that have become children of the agent. Used by the agent and by its
// guardian, each in its own process. Single-threaded.
#pragma once

#include "launcher/process/cgroup.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/deadline.hpp>

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Environment variable with the run's marker.
inline constexpr const char* kMarkerName = "DDPRUN_MARKER";

/// A process by its pidfd, which is not affected by reuse of the PID.
struct OpenProcess {
  pid_t pid = -1;
  UniqueFd pidfd;

  /// Returns false and sets errno if the process cannot be signalled.
  bool signal(int signal) const noexcept;

  /// Returns true if the process has ended (reaped or not).
  bool has_ended() const noexcept;
};

/// Returns nullopt if there is no such process or no descriptor is available.
std::optional<OpenProcess> open_process(pid_t pid) noexcept;

/// Signalled members whose end is pending.
struct PendingExits {
  std::vector<OpenProcess> processes;     ///< each pidfd is readable when its process has ended
  std::optional<UniqueFd> cgroup_events;  ///< no longer Cgroup::kPopulated when all have ended
  std::vector<pid_t> refusing;            ///< members that could not be signalled

  /// Returns true if no end can be waited for.
  bool are_all_refusing() const;
};

class RunMembers {
 public:
  /// `word` is the marker's value.
  RunMembers(std::string word, std::optional<Cgroup> cgroup);
  ~RunMembers();  ///< does not affect the cgroup or the processes

  RunMembers(const RunMembers&) = delete;
  RunMembers& operator=(const RunMembers&) = delete;

  const std::string& word() const { return word_; }
  const std::optional<Cgroup>& cgroup() const { return cgroup_; }

  /// Makes this process the parent of the run's orphans, which it must then reap. Its existing
  /// children are not members. A run with a cgroup then needs no search for the marker: a process
  /// that has moved to another cgroup becomes a child once its parents have been killed.
  void become_parent_of_orphans();
  bool is_parent_of_orphans() const { return is_parent_of_orphans_; }

  /// Excludes the guardian, a child of this process, from the members; -1: none.
  void set_guardian(pid_t guardian) { guardian_ = guardian; }

  // See containment.hpp.
  void exclude(pid_t child) { excluded_.push_back(child); }
  void include(pid_t child) { std::erase(excluded_, child); }

  /// Must be called if another process may have killed the members.
  void note_kill() { has_killed_ = true; }

  // See containment.hpp for the following functions.
  int cgroup_fd();
  std::vector<pid_t> members() const;
  void kill() const noexcept;
  PendingExits open_members(Deadline deadline) const;
  PendingExits terminate(std::vector<pid_t>& signalled, Deadline deadline) const;
  void freeze();
  void thaw();
  std::optional<PendingExits> kill_round(std::vector<pid_t>& killed) const;
  void reap_orphans(const std::vector<pid_t>& own) const noexcept;

  /// Kills repeatedly until there are no members, or until the deadline. Blocks.
  void kill_until_none(Deadline deadline) const;

  /// Removes the cgroup. Succeeds only if it is empty.
  void remove_cgroup() const noexcept;

 private:
  using Visit = std::function<void(OpenProcess& member)>;
  using Choice = std::function<bool(pid_t)>;
  bool visit_outside_cgroup(const Choice& is_wanted, const Visit& visit,
                            Deadline::Duration limit) const;
  void stop_outside_cgroup(std::vector<OpenProcess>& stopped, Deadline deadline,
                           const Choice& is_wanted) const;
  bool has_none() const;
  bool is_excluded(pid_t child) const;
  bool is_no_member(pid_t child) const;
  std::vector<pid_t> adopted_children() const;
  bool looks_for_marker() const;
  bool visit_if_marked(OpenProcess& process, const Visit& visit) const;
  bool kill_cgroup() const noexcept;
  std::vector<pid_t> pids_in_cgroup() const;
  std::vector<OpenProcess> open_in_cgroup() const;

  std::string word_;
  std::optional<Cgroup> cgroup_;
  std::optional<Cgroup> start_cgroup_;  ///< child of cgroup_ for new processes, after a kill
  int start_cgroup_count_ = 0;
  mutable bool has_killed_ = false;  ///< members were killed since the last start_cgroup_
  std::vector<OpenProcess> frozen_;  ///< processes outside the cgroup, stopped by freeze()
  bool is_parent_of_orphans_ = false;
  mutable std::vector<pid_t> earlier_children_;  ///< children from before the run
  int was_subreaper_ = 0;
  pid_t guardian_ = -1;
  std::vector<pid_t> excluded_;  ///< children that are not members, in addition to the guardian
};

}  // namespace ddprun
