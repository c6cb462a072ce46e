// A log file. A full or hanging disk causes a warning and lost output, but does not end the run.
// Runs on the agent's thread; the writer's thread makes the blocking calls.
#pragma once

#include "launcher/output/log_writer.hpp"
#include "rendezvous/base/held_path.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace ddprun {

class LogFile {
 public:
  /// Creates the file if it does not exist. Several LogFiles may write to the same file. In a held
  /// folder it must be a regular file with one link. Throws Error{Errc::system} with its path.
  LogFile(const HeldPath& path, std::shared_ptr<LogWriter> writer);
  ~LogFile();  ///< calls end()

  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Writes the bytes. Warns at the first loss.
  void write(std::string_view bytes);

  /// Closes the file after pending writes, and reports the number of lost bytes, if any.
  void end();

 private:
  std::shared_ptr<LogWriter> writer_;
  std::shared_ptr<LogWriter::File> file_;  ///< null after end()
  std::uint64_t lost_bytes_ = 0;
};

}  // namespace ddprun
