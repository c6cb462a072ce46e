// File in which a failing worker records the reason for the agent's report, in torchelastic's
// format:
// {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT, "timestamp": "SECONDS"}}}
// with "code": ERRC in "extraInfo" for an Error.
// Everything is prepared at start, so that writing needs no memory and is safe in a signal handler.
#pragma once

#include <ddprun/error.hpp>

#include <atomic>
#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::worker {

class ErrorFile {
 public:
  /// The file is for this process, not for forked children. An empty path disables writing.
  explicit ErrorFile(const std::string& path);

  /// Writes to a temporary file and renames it. The first call wins; later calls do nothing. The
  /// call stack consists of `heading` and the output of `write_stack` to a descriptor.
  /// Async-signal-safe if `write_stack` is. Returns false if this call has not written the file.
  bool write(std::string_view message, std::string_view heading, std::optional<Errc> code,
             void (*write_stack)(int fd)) noexcept;

 private:
  char path_[PATH_MAX] = "";
  char temporary_path_[PATH_MAX] = "";
  pid_t process_;
  std::atomic_flag is_written_ = ATOMIC_FLAG_INIT;
};

/// Writes the calling thread's stack, one line per frame. Async-signal-safe after the first call.
void write_backtrace(int fd);

}  // namespace ddprun::worker
