// Lock of a checkpoint directory: held by at most one process, from its claim or first save until
// it ends. The kernel holds it, so a dead writer releases it. Blocking; one thread at a time.
//
// A writer locks a file in the directory, and the directory itself. A directory can only be opened
// for reading, so its lock is a shared one and does not exclude concurrent writers, but it remains
// if the file is removed. NFS locks directories locally; between its hosts, a removed file is
// created and locked again at the next save.
#pragma once

#include "rendezvous/base/own_process.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <filesystem>

namespace ddprun {

class WriterLock {
 public:
  /// Throws Error{Errc::usage} with the owner, if known, if another writer holds the lock until
  /// `deadline`. Logs before it waits.
  WriterLock(const std::filesystem::path& directory, Deadline deadline, const Log& log = {});

  /// Must be called before each rename. Creates and locks the file again if it was removed. Throws
  /// Error{Errc::usage} if another process has locked it in between, and in a forked child, which
  /// shares its parent's locks.
  void renew();

  /// Returns true if a WriterLock of `directory` exists. Does not acquire a lock, and so never
  /// blocks a writer.
  static bool is_held(const std::filesystem::path& directory);

 private:
  bool try_lock();

  OwnProcess process_;
  std::filesystem::path file_;
  UniqueFd directory_fd_;  ///< has a shared lock, which survives removal of the file
  UniqueFd fd_;            ///< the file, with an exclusive lock
};

}  // namespace ddprun
