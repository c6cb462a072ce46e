// A cgroup (version 2) for a run: each fork inherits the membership, unprivileged processes cannot
// leave it, and the kernel kills all members at once. Thread-safe.
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

/// Prefix of the names of runs' cgroups, before the run's marker.
inline constexpr const char* kRunCgroupPrefix = "ddprun-run-";

class Cgroup {
 public:
  /// Creates a cgroup below that of this process, marks it as in use, and tests whether processes
  /// can be started in it. On failure returns nullopt and sets `reason`.
  static std::optional<Cgroup> create(const std::string& name, std::string& reason);

  /// Opens an existing cgroup without marking it as in use. Returns nullopt if it does not exist.
  static std::optional<Cgroup> open(const std::filesystem::path& folder);

  /// Creates a child cgroup. Throws Error{Errc::system} with its folder.
  Cgroup make_child(const std::string& name) const;

  /// A process left by an earlier run.
  struct Stale {
    pid_t pid = -1;
    std::string name;      ///< name of the executable; empty: unknown
    bool is_left = false;  ///< the process still runs at the deadline
  };

  /// Kills the processes of earlier runs whose agent has ended, in cgroups below that of this
  /// process, and removes these cgroups. Returns the processes found, once they have ended or at
  /// the deadline.
  static std::vector<Stale> end_stale_runs(Deadline deadline);

  Cgroup(Cgroup&& other) noexcept;
  Cgroup& operator=(Cgroup&& other) noexcept;
  ~Cgroup();  ///< closes the descriptor; remove() deletes the cgroup

  const std::filesystem::path& folder() const { return folder_; }

  /// Returns the folder's descriptor, for CLONE_INTO_CGROUP.
  int fd() const { return fd_; }

  /// Returns the processes of this cgroup and its descendants.
  std::vector<pid_t> members() const;

  /// Returns true if all members are frozen.
  bool is_frozen() const;

  /// Returns true if there are members, including exiting ones.
  bool is_populated() const;

  /// Returns true if there is no process; false also if this cannot be determined.
  bool is_empty() const;

  /// Returns a descriptor for has_event(), which reports POLLPRI after a change.
  UniqueFd open_events() const;

  /// Returns true if `event`, such as kPopulated, is set in the cgroup's events file.
  static bool has_event(const UniqueFd& events, std::string_view event);

  static constexpr std::string_view kPopulated = "populated 1";

  /// Blocks until there are no members, or until the deadline.
  void wait_until_empty(Deadline deadline) const;

  /// Sends SIGKILL to all members at once. Returns false if the kernel does not support it (before
  /// 5.14).
  bool kill() const noexcept;

  /// Freezes or thaws all members. Waits until they are frozen or the deadline passes.
  void freeze(Deadline deadline) const;
  void thaw() const noexcept;

  /// Removes this cgroup and its descendants. Succeeds only if all are empty.
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
