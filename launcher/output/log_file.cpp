#include "launcher/output/log_file.hpp"

#include <ddprun/error.hpp>

#include <cerrno>
#include <fcntl.h>
#include <utility>

namespace ddprun {

LogFile::LogFile(const std::filesystem::path& path, std::shared_ptr<LogWriter> writer)
    : writer_(std::move(writer)), file_(std::make_shared<LogWriter::File>()) {
  file_->name = path.string();
  // Another user with write access to the folder must not redirect the output by a link.
  file_->fd =
      UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file_->fd.get() < 0) throw_system_error("worker output: " + file_->name, errno);
}

LogFile::~LogFile() {
  end();
}

void LogFile::write(std::string_view bytes) {
  if (!file_ || bytes.empty() || writer_->write(file_, bytes)) return;
  if (lost_bytes_ == 0) {
    writer_->warn(file_->name +
                  ": its file system takes no output; output is missing from it, the worker "
                  "goes on");
  }
  lost_bytes_ += bytes.size();
}

void LogFile::end() {
  if (file_) writer_->close(std::move(file_), std::exchange(lost_bytes_, 0));
}

}  // namespace ddprun
