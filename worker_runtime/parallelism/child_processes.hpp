// Forked copies of this process, each in a process group of its own, that end with it at the
// latest. The thread that makes them does all the rest, too: a child dies with the thread that
// forked it.
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

/// How a child ended.
struct ChildEnd {
  int number = -1;  ///< in the order in which they were forked
  pid_t pid = -1;
  int exit_code = 0;
  int signal = 0;          ///< what ended it, 0 if it exited
  std::string message;     ///< what the exception said, if it was one
  bool is_victim = false;  ///< the exception was PeerFailed: another one failed before
  int peer = -1;           ///< that one's number, -1 if it is not known

  bool is_success() const { return exit_code == 0 && signal == 0; }
};

class ChildProcesses {
 public:
  ChildProcesses() = default;
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;
  /// Kills and reaps those that are left.
  ~ChildProcesses();

  /// The child calls `body` once give_port() has been called, with what it was given, and exits
  /// with 0; with 1 if it throws. Throws Error{Errc::system} if there can be no process.
  void fork(const std::function<void(std::uint16_t port)>& body);

  void give_port(std::uint16_t port);

  /// Those that have not ended, by their numbers.
  std::vector<int> running() const;

  /// Blocks until one ends, which is reaped then, together with what is left of its process group;
  /// nothing if the deadline passes first.
  std::optional<ChildEnd> wait(Deadline deadline);

  /// To all that run, and their process groups.
  void signal(int number) const noexcept;

 private:
  struct Child {
    pid_t pid = -1;
    UniqueFd pidfd = UniqueFd();
    UniqueFd channel = UniqueFd();  ///< the port goes out, an exception's text comes in
    bool is_running = true;
  };

  ChildEnd reap(std::size_t number);

  std::vector<Child> children_;
};

}  // namespace ddprun::spawning
