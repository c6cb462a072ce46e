// A small process that cleans up if the agent dies unexpectedly. It reads a pipe whose only writer
// is the agent, so the end of file signals the agent's death from any cause. If the run depends on
// a lease, the agent sends the lease's expiry through the pipe: at that time the guardian kills the
// members even if the agent is alive, because the agent may be stopped.
//
// The guardian is ddprun started under another name. It can therefore be started at any time, even
// by a multi-threaded process, and shares only the descriptor of the temporary folder with the
// agent. Its task is in the pipe before it starts.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun {

/// Task of the guardian.
struct GuardianTask {
  std::string word;                        ///< value of the run's marker
  std::filesystem::path cgroup;            ///< cgroup of the run; empty: none
  std::filesystem::path temporary_folder;  ///< empty: none
  int temporary_folder_fd = -1;  ///< descriptor of the same folder, above 2, not owned; -1: none

  bool operator==(const GuardianTask&) const = default;
};

class Guardian {
 public:
  /// `program`: path of ddprun.
  Guardian(std::string program, GuardianTask task);

  /// Kills and reaps the guardian, which then does not clean up.
  ~Guardian();

  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  using Clock = std::chrono::steady_clock;

  /// Starts the guardian, replacing an earlier one. Does not wait for its exec. Throws
  /// Error{Errc::system}.
  void start();

  /// Makes the guardian kill the members at `end`, unless called again earlier. Returns false if
  /// the guardian may have begun to kill or cannot be reached; the caller must then start another
  /// guardian before it starts new members.
  bool set_deadline(Clock::time_point end);

  /// Returns the guardian's PID; -1: not running.
  pid_t pid() const { return pid_; }

  /// Returns a descriptor that is readable once the guardian has ended.
  int pidfd() const { return pidfd_.get(); }

 private:
  void end() noexcept;

  std::string program_;
  GuardianTask task_;
  std::optional<Clock::time_point> end_;  ///< time to kill the members; nullopt: none
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd pipe_;
};

/// Returns true if `name`, an argv[0], belongs to a guardian.
bool is_guardian(std::string_view name);

/// Main function of the guardian: waits for the end of standard input and cleans up. Returns the
/// exit code.
int run_guardian();

}  // namespace ddprun
