#include "trainers/frame/json_lines.hpp"

#include <ddprun/error.hpp>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace trainer {

JsonLines::JsonLines(std::filesystem::path path, OpenMode mode) : path_(std::move(path)) {
  if (path_.empty()) return;
  const int flags =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (mode == OpenMode::truncate ? O_TRUNC : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0) {
    throw ddprun::Error(ddprun::Errc::usage,
                        path_.string() + " cannot be written: " + std::strerror(errno));
  }
}

JsonLines::~JsonLines() {
  if (is_open()) ::close(descriptor_);
}

void JsonLines::write(const nlohmann::ordered_json& line) {
  if (!is_open()) return;
  const std::string text = line.dump() + "\n";
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(descriptor_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ddprun::throw_system_error("writing " + path_.string(), errno);
    written += static_cast<std::size_t>(count);
  }
}

}  // namespace trainer
