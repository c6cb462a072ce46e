// Forked children, each in its own process group, that end when this process ends. All calls must
// come from the thread that forks, since a child is killed when that thread ends.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/deadline.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::spawning {

/// Result of a child.
struct ChildEnd {
  int number = -1;  ///< index in the order of fork()
  pid_t pid = -1;
  int exit_code = 0;
  int signal = 0;          ///< signal that ended it; 0 if it exited
  std::string message;     ///< message of its exception, if any
  bool is_victim = false;  ///< the exception was PeerFailed: another child failed before
  int peer = -1;           ///< index of that child; -1 if unknown

  bool is_success() const { return exit_code == 0 && signal == 0; }
};

class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  /// Kills and reaps the remaining children.
  ~ChildProcesses();

  /// The child waits for give_port(), calls `body` with the port, and exits with 0, or with 1 if
  /// `body` throws. Throws Error{Errc::system} if no process can be created.
  void fork(const std::function<void(std::uint16_t port)>& body);

  void give_port(std::uint16_t port);

  /// Returns the indices of running children.
  std::vector<int> running() const;

  /// Blocks until a child ends, reaps it and kills the rest of its process group. Returns nothing
  /// if the deadline passes first.
  std::optional<ChildEnd> wait(Deadline deadline);

  /// Sends a signal to the process groups of all running children.
  void signal(int number) const noexcept;

 private:
  struct Child {
    pid_t pid = -1;
    UniqueFd pidfd = UniqueFd();
    /// carries the port to the child and its exception's message back
    UniqueFd channel = UniqueFd();
    bool is_running = true;
  };

  ChildEnd reap(std::size_t number);

  std::vector<Child> children_;
};

}  // namespace ddprun::spawning
