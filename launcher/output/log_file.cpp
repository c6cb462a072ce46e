#include "launcher/output/log_file.hpp"

#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <utility>

namespace ddprun {

LogFile::LogFile(const std::filesystem::path& path, Log log)
    : log_(std::move(log)),
      name_(path.string()),
      // Nobody else who may write to the folder leads the output to another file by a link.
      file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644)) {
  if (file_.get() < 0) throw_system_error("worker output: " + name_, errno);
}

void LogFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = quiet_write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (bytes_lost_ == 0) {
        write_log(log_, LogLevel::warn,
                  name_ + ": " + std::strerror(errno) +
                      "; output is missing from it, the worker goes on");
      }
      bytes_lost_ += bytes.size();
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void LogFile::end() {
  const auto lost = std::exchange(bytes_lost_, 0);
  if (lost == 0) return;
  write_log(log_, LogLevel::warn, name_ + ": lacks " + std::to_string(lost) + " bytes");
}

}  // namespace ddprun
