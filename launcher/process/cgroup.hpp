// A cgroup (version 2) of the run's own: membership is inherited by every fork and cannot be left
// by a process that has no right to, and the kernel kills all members at once. Any thread.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/deadline.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// The cgroups of runs are called so, followed by the run's marker.
inline constexpr const char* kRunCgroupPrefix = "ddprun-run-";

class Cgroup {
 public:
  /// Makes a cgroup below this process' own, marks it as in use and tries whether a child can be
  /// born in it. On failure returns nothing and says why in `reason`.
  static std::optional<Cgroup> create(const std::string& name, std::string& reason);

  /// An existing one, without marking it as in use. Nothing if it is gone.
  static std::optional<Cgroup> open(const std::filesystem::path& folder);

  /// A cgroup below this one. Throws Error{Errc::system} naming its folder.
  Cgroup make_child(const std::string& name) const;

  /// What an earlier run has left.
  struct Stale {
    pid_t pid = -1;
    std::string name;      ///< of its program; empty: unknown
    bool is_left = false;  ///< has not ended by the deadline
  };

  /// Kills the processes of earlier runs whose agent has ended, in cgroups below this process' own,
  /// and removes these cgroups. Returns the processes found, once they have ended or at the
  /// deadline.
  static std::vector<Stale> end_stale_runs(Deadline deadline);

  Cgroup(Cgroup&& other) noexcept;
  Cgroup& operator=(Cgroup&& other) noexcept;
  ~Cgroup();  ///< closes the descriptor; the cgroup itself stays, see remove()

  const std::filesystem::path& folder() const { return folder_; }

  /// The folder's descriptor, for CLONE_INTO_CGROUP.
  int fd() const { return fd_; }

  /// Processes in it and in the cgroups that its members made below it.
  std::vector<pid_t> members() const;

  /// True if no member can run.
  bool is_frozen() const;

  /// True while there is any member, one that is just ending included.
  bool is_populated() const;

  /// True if no process is in it; false also if that cannot be read.
  bool is_empty() const;

  /// A descriptor by which tells() looks; POLLPRI says that what it tells may have changed since.
  UniqueFd open_events() const;

  /// True while the kernel tells of `event`, e.g. kPopulated.
  static bool tells(const UniqueFd& events, std::string_view event);

  static constexpr std::string_view kPopulated = "populated 1";

  /// Returns when there is no member, or when the deadline passes.
  void wait_until_empty(Deadline deadline) const;

  /// Sends SIGKILL to all members at once. False if the kernel cannot (before 5.14).
  bool kill() const noexcept;

  /// Stops all members, or lets them go on. Waits until they have stopped, but not longer than
  /// until the deadline.
  void freeze(Deadline deadline) const;
  void thaw() const noexcept;

  /// Removes it and the cgroups below it; only empty ones can be.
  void remove() const noexcept;

 private:
  Cgroup(std::filesystem::path folder, int fd) : folder_(std::move(folder)), fd_(fd) {}

  static std::optional<Cgroup> mark_in_use(const std::filesystem::path& folder);
  bool write_file(const char* name, char byte) const noexcept;
  void wait_while(std::string_view event, Deadline deadline) const;

  std::filesystem::path folder_;
  int fd_ = -1;
};

}  // namespace ddprun
