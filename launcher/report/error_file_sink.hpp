// The agent's own error file, for a launcher or scheduler above it that names one in
// TORCHELASTIC_ERROR_FILE: when the run ends in failure it gets the root cause's error as the
// worker recorded it, with its exit code. Workers never see that variable's value: each has a file
// of its own. One thread.
#pragma once

#include "launcher/report/event.hpp"
#include "rendezvous/base/held_path.hpp"
#include <ddprun/log.hpp>

#include <filesystem>
#include <string>

namespace ddprun {

/// The content of the file, in the form that torchelastic's decorator writes: message with
/// errorCode (the exit code, or minus the signal), py_callstack and timestamp. Where the worker
/// recorded nothing, the message says how it ended and the timestamp is `now`.
std::string error_document(const RunFinished& finished, std::chrono::system_clock::time_point now);

class ErrorFileSink : public EventSink {
 public:
  /// An existing file is overwritten. `log` hears if the file cannot be written; nothing else
  /// depends on it. Symbolic links are followed now and not when the file is written: its folder
  /// may be writable for the workers' user.
  ErrorFileSink(std::filesystem::path file, Log log);

  void take(const Event& event, std::chrono::system_clock::time_point when) override;

 private:
  std::string write(const std::string& text) const;

  std::filesystem::path file_;
  HeldPath place_;    ///< of a regular file or none
  UniqueFd special_;  ///< the pipe or device that the file is, opened by O_PATH; -1: none
  Log log_;
};

}  // namespace ddprun
