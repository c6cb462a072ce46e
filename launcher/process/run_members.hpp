// The processes of a run, found and killed as a whole: by the run's cgroup where there is one, by a
// marker in their environment, and as orphans that have become children of the agent. The agent
// and its guardian both use it, each in its own process. One thread.
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

/// The variable that holds the run's marker.
inline constexpr const char* kMarkerName = "DDPRUN_MARKER";

/// A process by a descriptor, which goes on meaning this one when its number is given to another.
struct OpenProcess {
  pid_t pid = -1;
  UniqueFd pidfd;

  /// False, and errno is set, if it cannot be signalled.
  bool signal(int signal) const noexcept;

  /// True if it has ended (reaped or not).
  bool has_ended() const noexcept;
};

/// Nothing if there is no such process, or no descriptor.
std::optional<OpenProcess> open_process(pid_t pid) noexcept;

/// What tells that members who have been told to end have done so.
struct PendingExits {
  std::vector<OpenProcess> processes;     ///< each pidfd can be read when its process has ended
  std::optional<UniqueFd> cgroup_events;  ///< tells no Cgroup::kPopulated when all have ended
  std::vector<pid_t> refusing;            ///< those of other users, which have not been signalled

  /// True if there is no end to wait for.
  bool are_all_refusing() const;
};

class RunMembers {
 public:
  /// `word` is the marker's value.
  RunMembers(std::string word, std::optional<Cgroup> cgroup);
  ~RunMembers();  ///< leaves cgroup and processes as they are

  RunMembers(const RunMembers&) = delete;
  RunMembers& operator=(const RunMembers&) = delete;

  const std::string& word() const { return word_; }
  const std::optional<Cgroup>& cgroup() const { return cgroup_; }

  /// From now on orphans of the run become children of this process, which must reap them. Children
  /// that it has already are no members. Then a run with a cgroup does not look for the marker: a
  /// process that has moved to another cgroup becomes a child once its parents have been killed.
  void become_parent_of_orphans();
  bool is_parent_of_orphans() const { return is_parent_of_orphans_; }

  /// A child of this process that is no member; -1: none.
  void except(pid_t guardian) { guardian_ = guardian; }

  /// Somebody else may have killed the members.
  void note_kill() { has_killed_ = true; }

  // What the following do is described in containment.hpp.
  int cgroup_fd();
  std::vector<pid_t> members() const;
  void kill() const noexcept;
  PendingExits ask(std::vector<pid_t>& asked, Deadline deadline) const;
  void freeze();
  void thaw();
  std::optional<PendingExits> kill_round(std::vector<pid_t>& met) const;
  void reap_orphans(const std::vector<pid_t>& own) const noexcept;

  /// Kills, round after round, until no member is left or the deadline has passed. Blocks.
  void kill_until_none(Deadline deadline) const;

  /// Only an empty one can be removed.
  void remove_cgroup() const noexcept;

 private:
  using Visit = std::function<void(OpenProcess& member)>;
  using Choice = std::function<bool(pid_t)>;
  void visit_outside_cgroup(const Choice& is_wanted, const Visit& visit) const;
  void stop_outside_cgroup(std::vector<OpenProcess>& stopped, Deadline deadline,
                           const Choice& is_wanted) const;
  bool has_none() const;
  bool is_no_member(pid_t child) const;
  std::vector<pid_t> adopted_children() const;
  bool looks_for_marker() const;
  bool visit_if_marked(OpenProcess& process, const Visit& visit) const;
  bool kill_cgroup() const noexcept;
  std::vector<pid_t> pids_in_cgroup() const;
  std::vector<OpenProcess> open_in_cgroup() const;

  std::string word_;
  std::optional<Cgroup> cgroup_;
  std::optional<Cgroup> birthplace_;  ///< below cgroup_, once that has been killed
  int births_ = 0;
  mutable bool has_killed_ = false;  ///< since the birthplace was made
  std::vector<OpenProcess> frozen_;  ///< stopped by freeze(), outside the cgroup
  bool is_parent_of_orphans_ = false;
  mutable std::vector<pid_t> earlier_children_;  ///< of this process, from before the run
  int was_subreaper_ = 0;
  pid_t guardian_ = -1;
};

}  // namespace ddprun
