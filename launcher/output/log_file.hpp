// A file that output goes to. A disk that is full is worth a warning, never the end of the run.
// Runs on the agent's one thread.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/log.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

class LogFile {
 public:
  /// Makes the file if there is none; several may write to the same one. Throws Error{Errc::system}
  /// naming it.
  LogFile(const std::filesystem::path& path, Log log);

  /// Warns of the first failure; the bytes are lost then.
  void write(std::string_view bytes);

  /// Tells how much is missing, if any is.
  void end();

 private:
  Log log_;
  std::string name_;
  UniqueFd file_;
  std::uint64_t bytes_lost_ = 0;
};

}  // namespace ddprun
