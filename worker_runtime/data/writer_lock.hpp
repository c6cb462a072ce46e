// Who may write into a directory of checkpoints: one process at a time, from its claim or first
// save until it ends. Held by the kernel, so that a dead writer never holds it. Blocking; one
// thread at a time.
//
// A writer locks a file in the directory, and the directory itself: a directory can only be opened
// for reading, so its lock is a shared one and cannot decide between writers that come at once, but
// it stays when the file is removed. Between the hosts of an NFS, where locks of directories are
// local, a removed file is created and locked again at the next save.
#pragma once

#include "rendezvous/base/own_process.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <filesystem>

namespace ddprun {

class WriterLock {
 public:
  /// Throws Error{Errc::usage} naming the process if another one holds the lock and does not end
  /// by `deadline`. `log` is told before it waits.
  WriterLock(const std::filesystem::path& directory, Deadline deadline, const Log& log = {});

  /// To be called before each publish. Creates and locks the file again if it was removed; throws
  /// Error{Errc::usage} if another process locked it in between, or in a forked child: it shares
  /// its parent's locks.
  void renew();

  /// Whether some WriterLock of `directory` exists now. Takes nothing itself, so that it never
  /// stands in a writer's way.
  static bool is_held(const std::filesystem::path& directory);

 private:
  bool try_lock();

  OwnProcess process_;
  std::filesystem::path file_;
  UniqueFd directory_fd_;  ///< with a shared lock, which a removal of the file does not end
  UniqueFd fd_;            ///< of the file, with an exclusive one
};

}  // namespace ddprun
