// Writes the agent's error file for a parent launcher or scheduler that sets
// TORCHELASTIC_ERROR_FILE. When the run fails, the file receives the root cause's error as recorded
// by the worker, and the exit code. Workers do not inherit the variable: each has a separate file.
// Single-threaded.
#pragma once

#include "launcher/report/event.hpp"
#include "rendezvous/base/held_path.hpp"
#include <ddprun/log.hpp>

#include <filesystem>
#include <string>

namespace ddprun {

/// Returns the file's content in the format of torchelastic's decorator: message with errorCode
/// (the exit code or the negated signal), py_callstack and timestamp. If the worker recorded no
/// error, the message describes how it ended, and the timestamp is `now`.
std::string error_document(const RunFinished& finished, std::chrono::system_clock::time_point now);

class ErrorFileSink : public EventSink {
 public:
  /// Prepares to write `file`, which may exist. A failed write only causes a message in `log`.
  /// Resolves symbolic links now and not at the time of the write, because the folder may be
  /// writable for the workers' user.
  ErrorFileSink(std::filesystem::path file, Log log);

  void take(const Event& event, std::chrono::system_clock::time_point when) override;

 private:
  std::string write(const std::string& text) const;

  std::filesystem::path file_;
  HeldPath place_;    ///< path of a regular or missing file
  UniqueFd special_;  ///< pipe or device, opened with O_PATH; -1 for other files
  Log log_;
};

}  // namespace ddprun
