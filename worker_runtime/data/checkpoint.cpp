#include "worker_runtime/data/checkpoint_file.hpp"
#include "worker_runtime/data/writer_lock.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <iterator>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "step_";
constexpr std::string_view kSuffix = ".ckpt";
constexpr std::string_view kTemporarySuffix = ".tmp";

// Padded with zeros, so that file names sort by step.
std::string file_name(std::int64_t step) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%012lld", static_cast<long long>(step));
  return std::string(kPrefix) + digits + std::string(kSuffix);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  const auto digits_end = name.size() - std::min(name.size(), kSuffix.size());
  if (!name.starts_with(kPrefix) || digits_end <= kPrefix.size()) return std::nullopt;
  std::int64_t step = 0;
  for (const char digit : name.substr(kPrefix.size(), digits_end - kPrefix.size())) {
    if (digit < '0' || digit > '9' || __builtin_mul_overflow(step, 10, &step) ||
        __builtin_add_overflow(step, digit - '0', &step)) {
      return std::nullopt;
    }
  }
  // Files with another spelling of the number would never be replaced by a save.
  return name == file_name(step) ? std::optional(step) : std::nullopt;
}

bool is_temporary(const std::string& name) {
  return name.starts_with(kPrefix) && name.ends_with(kTemporarySuffix);
}

/// Returns a name that no other save uses, in this process or another.
std::string temporary_name(std::int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return file_name(step) + "." + std::to_string(::getpid()) + "." + std::to_string(now) +
         std::string(kTemporarySuffix);
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  try {
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw_system_error("checkpoint directory " + directory.string(), error.code().value());
  }
  return names;
}

class File {
 public:
  File(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int close() { return is_open() ? ::close(std::exchange(fd_, -1)) : 0; }

 private:
  int fd_;
};

/// Makes the entries of `directory` durable.
void sync_directory(const fs::path& directory) {
  const File file(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY);
  // EINVAL: the file system does not support it; renaming must suffice.
  if (!file.is_open() || (::fsync(file.fd()) != 0 && errno != EINVAL)) {
    throw_system_error("flushing directory " + directory.string(), errno);
  }
}

/// Returns false if the directory exists or another process creates it first.
bool create_durably(const fs::path& directory) {
  std::error_code error;
  if (directory.empty() || fs::is_directory(directory, error)) return false;
  const bool has_new_parent = create_durably(directory.parent_path());
  // "run/": the parent was the directory itself.
  if (!directory.has_filename()) return has_new_parent;
  const bool is_new = fs::create_directory(directory, error);
  if (error) throw_system_error("creating directory " + directory.string(), error.value());
  sync_directory(directory.parent_path());
  return is_new;
}

/// Writes and flushes a new file; removes it on failure.
void write_durably(const fs::path& path, const Checkpoint& checkpoint) {
  File file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.is_open()) throw_system_error("creating " + path.string(), errno);
  try {
    write_checkpoint(file.fd(), checkpoint);
    if (::fsync(file.fd()) != 0) throw_system_error("flushing", errno);
    if (file.close() != 0) throw_system_error("closing", errno);
  } catch (const Error& error) {
    ::unlink(path.c_str());
    throw Error(error.code(), "saving " + path.string() + ": " + error.what() +
                                  "; earlier checkpoints are untouched");
  }
}

std::variant<Checkpoint, CheckpointDamage> load(const fs::path& path, std::int64_t step) {
  // Non-blocking, so that a FIFO is rejected instead of waited for.
  const File file(path, O_RDONLY | O_NONBLOCK);
  if (!file.is_open()) {
    return CheckpointDamage{"opening: " + std::generic_category().message(errno)};
  }
  auto result = read_checkpoint(file.fd());
  if (const auto* checkpoint = std::get_if<Checkpoint>(&result)) {
    if (checkpoint->step != step) {
      return CheckpointDamage{"it holds step " + std::to_string(checkpoint->step)};
    }
  }
  return result;
}

}  // namespace

void get_section(const Checkpoint& checkpoint, const std::string& name,
                 std::span<std::byte> bytes) {
  const auto section = checkpoint.sections.find(name);
  if (section == checkpoint.sections.end()) {
    throw Error(Errc::usage, "checkpoint of step " + std::to_string(checkpoint.step) +
                                 " has no section \"" + name + "\"");
  }
  if (section->second.size() != bytes.size()) {
    throw Error(Errc::usage, "checkpoint of step " + std::to_string(checkpoint.step) +
                                 ": section \"" + name + "\" has " +
                                 std::to_string(section->second.size()) + " bytes, expected " +
                                 std::to_string(bytes.size()));
  }
  std::copy(section->second.begin(), section->second.end(), bytes.begin());
}

CheckpointDirectory::CheckpointDirectory(fs::path path)
    : CheckpointDirectory(std::move(path), Options{}) {}

CheckpointDirectory::CheckpointDirectory(fs::path path, Options options)
    : path_(std::move(path)), options_(std::move(options)) {
  if (options_.keep < 2) {
    throw Error(Errc::usage, "checkpoints to keep: " + std::to_string(options_.keep) +
                                 ", must be at least 2 so that a damaged one has a predecessor");
  }
  // A mistyped path also starts a new run.
  if (create_durably(path_))
    write_log(options_.log, LogLevel::info, "directory " + path_.string() + " is new");
  const auto names = names_in(path_);
  // Lists the files before it checks the lock: without a writer they belong to one that has died.
  if (!WriterLock::is_held(path_)) remove_temporaries(names);
}

void CheckpointDirectory::remove_temporaries(const std::vector<std::string>& names) const {
  for (const auto& name : names) {
    if (!is_temporary(name)) continue;
    write_log(options_.log, LogLevel::info, "removing " + (path_ / name).string() + ": unfinished");
    ::unlink((path_ / name).c_str());
  }
}

void CheckpointDirectory::claim() {
  if (lock_) return;
  lock_ =
      std::make_shared<WriterLock>(path_, Deadline::after(options_.takeover_timeout), options_.log);
  // A predecessor that has just died may have left files.
  remove_temporaries(names_in(path_));
}

void CheckpointDirectory::save(const Checkpoint& checkpoint) {
  check_checkpoint(checkpoint);
  claim();
  const auto temporary = path_ / temporary_name(checkpoint.step);
  const auto path = path_ / file_name(checkpoint.step);
  write_durably(temporary, checkpoint);
  try {
    lock_->renew();
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw_system_error("renaming " + temporary.string() + " to " + path.string(), error);
  }
  sync_directory(path_);
  damaged_->erase(checkpoint.step);
  remove_older_than(checkpoint.step);
}

void CheckpointDirectory::remove_older_than(std::int64_t newest) const {
  const auto all = steps();
  std::size_t kept = 0;
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    // Checkpoints after `newest` are damaged, or this run would have resumed from them.
    if (*step > newest) continue;
    if (kept == options_.keep) {
      ::unlink((path_ / file_name(*step)).c_str());
    } else if (!damaged_->contains(*step)) {
      ++kept;
    }
  }
}

std::optional<Checkpoint> CheckpointDirectory::load_newest() const {
  const auto all = steps();
  std::string problem;
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    const auto path = path_ / file_name(*step);
    auto result = load(path, *step);
    if (auto* checkpoint = std::get_if<Checkpoint>(&result)) {
      damaged_->erase(*step);
      write_log(options_.log, LogLevel::info, "checkpoint " + path.string() + " is loaded");
      return std::move(*checkpoint);
    }
    damaged_->insert(*step);
    const std::string reason = "checkpoint " + path.string() +
                               " cannot be used: " + std::get<CheckpointDamage>(result).reason;
    const bool is_last = std::next(step) == all.rend();
    write_log(options_.log, LogLevel::warn, reason + (is_last ? "" : "; trying the one before it"));
    if (problem.empty()) problem = reason;
  }
  if (!problem.empty()) {
    throw Error(Errc::usage, "none of the " + std::to_string(all.size()) + " checkpoints in " +
                                 path_.string() + " can be used: " + problem +
                                 " (move them away to start a new run)");
  }
  write_log(options_.log, LogLevel::info, "no checkpoint in " + path_.string());
  return std::nullopt;
}

std::vector<std::int64_t> CheckpointDirectory::steps() const {
  std::vector<std::int64_t> steps;
  for (const auto& name : names_in(path_)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace ddprun
