// A file that output goes to. A disk that is full or hangs is worth a warning, never the end of the
// run. Runs on the agent's one thread; the writer's thread does what may block.
#pragma once

#include "launcher/output/log_writer.hpp"
#include "rendezvous/base/held_path.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace ddprun {

class LogFile {
 public:
  /// Creates the file if it does not exist; several may write to the same one. In a held folder it
  /// must be a regular file with one link. Throws Error{Errc::system} naming it.
  LogFile(const HeldPath& path, std::shared_ptr<LogWriter> writer);
  ~LogFile();  ///< as end()

  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Warns at the first loss.
  void write(std::string_view bytes);

  /// Closes the file once it has been written and reports how many bytes it lacks, if any.
  void end();

 private:
  std::shared_ptr<LogWriter> writer_;
  std::shared_ptr<LogWriter::File> file_;  ///< null after end()
  std::uint64_t lost_bytes_ = 0;
};

}  // namespace ddprun
