#include "worker_runtime/data/writer_lock.hpp"

#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

constexpr const char* kFileName = "writer.lock";

/// Enough for "PID HOST".
constexpr std::size_t kOwnerBytesMax = 128;

/// The lock is polled, since the end of a process on another host or in another pid namespace
/// cannot be observed. Short compared with the start of a worker.
constexpr auto kRetryInterval = std::chrono::milliseconds(50);

// Open file description locks: unlike flock(2), they can be queried without being acquired; unlike
// classic fcntl locks, they are not released when the process closes another descriptor of the
// file.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

UniqueFd open_file(const std::filesystem::path& file) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (fd.get() < 0) throw_system_error("opening " + file.string(), errno);
  return fd;
}

UniqueFd open_directory(const std::filesystem::path& directory) {
  return UniqueFd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool try_lock_file(int fd, const std::filesystem::path& file) {
  auto lock = whole_file(F_WRLCK);
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) {
    throw_system_error("locking " + file.string(), errno);
  }
  return false;
}

/// Sets (F_RDLCK) or removes (F_UNLCK) the lock. Ignores errors on file systems that cannot lock
/// directories: the lock of the file remains.
void lock_directory(int fd, short type) {
  auto lock = whole_file(type);
  ::fcntl(fd, F_OFD_SETLK, &lock);
}

/// Returns true if another open file description has a lock.
bool is_locked(int fd) {
  auto lock = whole_file(F_WRLCK);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool is_same_file(int one, int other) {
  struct stat first {};
  struct stat second {};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::string host_name() {
  char name[65] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

struct Owner {
  pid_t pid = 0;  ///< 0 if unknown
  std::string host;
};

Owner read_owner(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  char text[kOwnerBytesMax + 1] = {};
  if (::pread(fd.get(), text, kOwnerBytesMax, 0) <= 0) return {};
  char* end = nullptr;
  const auto pid = static_cast<pid_t>(std::strtol(text, &end, 10));
  if (pid <= 0 || *end != ' ') return {};
  const std::string host = end + 1;
  return {pid, host.substr(0, host.find('\n'))};
}

/// Writes this process' identity, for the error of a second writer. Failures are ignored, since the
/// lock does not depend on it.
void write_owner(int fd) {
  const std::string text = std::to_string(::getpid()) + " " + host_name() + "\n";
  if (::ftruncate(fd, 0) != 0) return;
  if (quiet_write(fd, text.data(), text.size()) < 0) return;
}

std::string describe(const Owner& owner) {
  if (owner.pid == 0) return "another process";
  if (owner.pid == ::getpid() && owner.host == host_name()) return "this process already";
  return "process " + std::to_string(owner.pid) + " on " + owner.host;
}

}  // namespace

WriterLock::WriterLock(const std::filesystem::path& directory, Deadline deadline, const Log& log)
    : file_(directory / kFileName), directory_fd_(open_directory(directory)) {
  for (bool has_waited = false; !try_lock(); has_waited = true) {
    // Read at each attempt: a new owner writes it after it has acquired the lock.
    const std::string state = "checkpoint directory " + directory.string() +
                              " is being written by " + describe(read_owner(file_));
    if (deadline.passed()) throw Error(Errc::usage, state + ": give each run its own");
    if (!has_waited) write_log(log, LogLevel::warn, state + ": waiting for it to end");
    const auto pause = std::min<Deadline::Duration>(kRetryInterval, deadline.remaining());
    ::poll(nullptr, 0, Deadline::after(pause).remaining_poll_milliseconds());
  }
  write_owner(fd_.get());
}

bool WriterLock::try_lock() {
  // Checks the directory before it creates the file: if the file was removed, the writer that holds
  // the directory creates it again.
  if (is_locked(directory_fd_.get())) return false;
  UniqueFd fd = open_file(file_);
  if (!try_lock_file(fd.get(), file_)) return false;
  lock_directory(directory_fd_.get(), F_RDLCK);
  if (is_locked(directory_fd_.get())) {
    lock_directory(directory_fd_.get(), F_UNLCK);
    return false;
  }
  fd_ = std::move(fd);
  return true;
}

void WriterLock::renew() {
  process_.require("checkpoint directory " + file_.parent_path().string() + ": its lock",
                   "save checkpoints there only");
  // Always opened, since stat() may return cached attributes on NFS.
  UniqueFd fd = open_file(file_);
  if (is_same_file(fd_.get(), fd.get())) return;
  if (!try_lock_file(fd.get(), file_)) {
    throw Error(Errc::usage, file_.string() + " was removed and then locked by " +
                                 describe(read_owner(file_)) + ": give each run its own directory");
  }
  fd_ = std::move(fd);
  write_owner(fd_.get());
}

bool WriterLock::is_held(const std::filesystem::path& directory) {
  const auto file = directory / kFileName;
  if (is_locked(open_directory(directory).get())) return true;
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  return fd.get() < 0 ? errno != ENOENT : is_locked(fd.get());
}

}  // namespace ddprun
