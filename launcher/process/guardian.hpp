// A small process that cleans up when the agent dies without a chance to do so itself. It waits on
// a pipe whose only writer is the agent: the end of file is the agent's death, however it came. If
// the run depends on somebody else's word, the agent says over the pipe until when that is good:
// after it the guardian kills what it guards although the agent lives, since that may be stopped.
//
// The guardian is ddprun itself, started under another name: so it can be started at any time, by a
// process with threads, too, and shares nothing with the agent but the descriptor of the temporary
// folder. What it has to do stands in the pipe before it starts.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun {

/// What is to be cleaned up.
struct GuardianTask {
  std::string word;                        ///< of the run's marker
  std::filesystem::path cgroup;            ///< of the run; empty: it has none
  std::filesystem::path temporary_folder;  ///< empty: none
  int temporary_folder_fd = -1;            ///< the same, open; above 2, stays the caller's

  bool operator==(const GuardianTask&) const = default;
};

class Guardian {
 public:
  /// `program` is ddprun.
  Guardian(std::string program, GuardianTask task);

  /// Kills and reaps the guardian, which cleans up nothing then.
  ~Guardian();

  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  using Clock = std::chrono::steady_clock;

  /// Starts the guardian, in the place of one before it. Does not wait for its exec. Throws
  /// Error{Errc::system}.
  void start();

  /// From now on the guardian kills what it guards at `end`. False if it may have begun to do so,
  /// or cannot be told: another one has to be started before there is anything new to guard.
  bool put_off(Clock::time_point end);

  /// -1: there is none.
  pid_t pid() const { return pid_; }

  /// Can be read when the guardian has ended.
  int pidfd() const { return pidfd_.get(); }

 private:
  void end() noexcept;

  std::string program_;
  GuardianTask task_;
  std::optional<Clock::time_point> end_;  ///< when it kills; nothing: with the agent's death only
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd pipe_;
};

/// Whether a program with this argv[0] was started to be a guardian.
bool is_guardian(std::string_view name);

/// The guardian's main: waits for the end of standard input and cleans up. Returns the exit code.
int be_guardian();

}  // namespace ddprun
