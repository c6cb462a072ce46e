#include "launcher/output/log_file.hpp"

#include <ddprun/error.hpp>

#include <cerrno>
#include <fcntl.h>
#include <utility>

namespace ddprun {

LogFile::LogFile(const HeldPath& path, std::shared_ptr<LogWriter> writer)
    : writer_(std::move(writer)), file_(std::make_shared<LogWriter::File>()) {
  constexpr int kOpenFlags = O_WRONLY | O_CREAT | O_APPEND;
  file_->name = path.path().string();
  file_->fd = path.is_held() ? path.open_regular(kOpenFlags, 0644) : path.open(kOpenFlags, 0644);
  if (file_->fd.get() < 0) throw_system_error("worker output: " + file_->name, errno);
}

LogFile::~LogFile() {
  end();
}

void LogFile::write(std::string_view bytes) {
  if (!file_ || bytes.empty() || writer_->write(file_, bytes)) return;
  if (lost_bytes_ == 0) {
    writer_->report_loss(file_->name +
                         ": its file system takes no output; output is missing from it, the worker "
                         "continues");
  }
  lost_bytes_ += bytes.size();
}

void LogFile::end() {
  if (file_) writer_->close(std::move(file_), std::exchange(lost_bytes_, 0));
}

}  // namespace ddprun
