// Who may write into a directory of checkpoints: one process at a time, from its claim or first
// save until it ends. Held by the kernel, so that a dead writer never holds it. Blocking; one
// thread at a time.
#pragma once

#include <ddprun/deadline.hpp>
#include <ddprun/log.hpp>

#include <filesystem>

namespace ddprun {

class WriterLock {
 public:
  /// Throws Error{Errc::usage} naming the process if another one holds the lock and does not end
  /// by `deadline`. `log` is told before it waits.
  WriterLock(const std::filesystem::path& directory, Deadline deadline, const Log& log = {});
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  ~WriterLock();

  /// Whether some WriterLock of `directory` exists now. Takes nothing itself, so that it never
  /// stands in a writer's way.
  static bool is_held(const std::filesystem::path& directory);

 private:
  int fd_;
};

}  // namespace ddprun
