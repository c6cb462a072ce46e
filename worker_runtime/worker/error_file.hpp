// The file in which a worker that fails says why, for the agent's report; its form is
// torchelastic's:
// {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT, "timestamp": "SECONDS"}}}.
// Everything is prepared at start, so that writing needs no memory and is safe in a signal handler.
#pragma once

#include <atomic>
#include <climits>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::worker {

class ErrorFile {
 public:
  /// For this process and not for those that it forks. An empty path means that nothing is written.
  explicit ErrorFile(const std::string& path);

  /// Writes to a temporary file beside and renames it. The first call wins, later ones do nothing.
  /// The call stack is `heading` and the text that `write_stack` writes to a descriptor.
  /// Async-signal-safe if that is. False if this call has left no file.
  bool write(std::string_view message, std::string_view heading,
             void (*write_stack)(int fd)) noexcept;

 private:
  char path_[PATH_MAX] = "";
  char temporary_path_[PATH_MAX] = "";
  pid_t process_;
  std::atomic_flag is_written_ = ATOMIC_FLAG_INIT;
};

/// Writes the calling thread's stack, a line for each frame. Async-signal-safe after it has been
/// called once before.
void write_backtrace(int fd);

}  // namespace ddprun::worker
