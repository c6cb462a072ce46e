// A small process that cleans up when the agent dies without a chance to do so itself. It waits on
// a pipe whose only writer is the agent: the end of file is the agent's death, however it came.
//
// The guardian is ddprun itself, started under another name: so it can be started at any time, by a
// process with threads, too, and shares nothing with the agent. What it has to do stands in the
// pipe before it starts.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun {

/// What is to be cleaned up.
struct GuardianTask {
  std::string word;                        ///< of the run's marker
  std::filesystem::path cgroup;            ///< of the run; empty: it has none
  std::filesystem::path temporary_folder;  ///< empty: none

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

  /// Starts the guardian, in the place of one that has ended. Does not wait for its exec. Throws
  /// Error{Errc::system}.
  void start();

  /// -1: there is none.
  pid_t pid() const { return pid_; }

  /// Can be read when the guardian has ended.
  int pidfd() const { return pidfd_.get(); }

 private:
  void end() noexcept;

  std::string program_;
  GuardianTask task_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd pipe_;
};

/// Whether a program with this argv[0] was started to be a guardian.
bool is_guardian(std::string_view name);

/// The guardian's main: waits for the end of standard input and cleans up. Returns the exit code.
int be_guardian();

}  // namespace ddprun
