#include "trainers/tracking/event_file.hpp"

#include <ddprun/error.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace trainer {

namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TensorBoard reads files with "tfevents" in their name, in the order of their names.
std::string file_name() {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'u', 'n', 'k', 'n', 'o', 'w', 'n'};
  std::array<char, 32> time = {};  // to the microsecond: two attempts may begin in one second
  std::snprintf(time.data(), time.size(), "%.6f", seconds_since_1970());
  return "events.out.tfevents." + std::string(time.data()) + "." + host.data() + "." +
         std::to_string(::getpid());
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> restart)
    : EventFile(folder / file_name()) {
  append(version_event(seconds_since_1970()));
  if (restart) append(restart_event(seconds_since_1970(), *restart));
}

EventFile::EventFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;  // a failure to open the file names the reason
  std::filesystem::create_directories(path_.parent_path(), ignored);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw ddprun::Error(ddprun::Errc::usage, "--tensorboard: " + path_.string() +
                                                 " cannot be written: " + std::strerror(errno));
  }
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  append(scalars_event(seconds_since_1970(), step, scalars));
}

void EventFile::write_settings(const std::map<std::string, std::string>& settings) {
  append(text_event(seconds_since_1970(), "settings", settings_table(settings)));
}

void EventFile::append(const std::string& event) {
  const std::string record = tf_record(event);
  std::size_t written = 0;
  while (written < record.size()) {
    const ssize_t count = ::write(descriptor_, record.data() + written, record.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ddprun::throw_system_error("writing " + path_.string(), errno);
    written += static_cast<std::size_t>(count);
  }
}

}  // namespace trainer
