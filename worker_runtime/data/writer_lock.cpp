#include "worker_runtime/data/writer_lock.hpp"

#include <ddprun/error.hpp>

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun {

namespace {

constexpr const char* kFileName = "writer.lock";

/// Enough for "PID HOST".
constexpr std::size_t kOwnerBytesMax = 128;

// Locks of the open file description: unlike flock(2) they can be asked about without being taken,
// and unlike classic fcntl locks they are not lost when the process closes another descriptor of
// the file.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool try_lock(int fd, const std::filesystem::path& file) {
  auto lock = whole_file();
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) {
    throw_system_error("locking " + file.string(), errno);
  }
  return false;
}

std::string host_name() {
  char name[65] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

struct Owner {
  pid_t pid = 0;  ///< 0 if unknown
  std::string host;
};

Owner read_owner(int fd) {
  char text[kOwnerBytesMax + 1] = {};
  if (::pread(fd, text, kOwnerBytesMax, 0) <= 0) return {};
  char* end = nullptr;
  const auto pid = static_cast<pid_t>(std::strtol(text, &end, 10));
  if (pid <= 0 || *end != ' ') return {};
  const std::string host = end + 1;
  return {pid, host.substr(0, host.find('\n'))};
}

/// Says who writes here, for the error of a second writer. Nothing depends on it, so that a full
/// disk is no reason to fail.
void write_owner(int fd) {
  const std::string text = std::to_string(::getpid()) + " " + host_name() + "\n";
  if (::ftruncate(fd, 0) != 0) return;
  if (::pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

/// Returns when the process has ended, at once if that cannot be known here, or at the deadline.
/// Calls `before` if it is going to wait.
template <typename Before>
void wait_for_exit(const Owner& owner, Deadline deadline, const Before& before) {
  if (owner.pid == 0 || owner.pid == ::getpid() || owner.host != host_name()) return;
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, owner.pid, 0));
  if (pidfd < 0) return;
  before();
  pollfd wait{.fd = pidfd, .events = POLLIN, .revents = 0};
  while (::poll(&wait, 1, deadline.remaining_poll_milliseconds()) < 0 && errno == EINTR) {
  }
  ::close(pidfd);
}

std::string describe(const Owner& owner) {
  if (owner.pid == 0) return "another process";
  if (owner.pid == ::getpid()) return "this process already";
  return "process " + std::to_string(owner.pid) + " on " + owner.host;
}

}  // namespace

WriterLock::WriterLock(const std::filesystem::path& directory, Deadline deadline, const Log& log) {
  const auto file = directory / kFileName;
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_system_error("opening " + file.string(), errno);
  try {
    if (!try_lock(fd_, file)) {
      const auto owner = read_owner(fd_);
      const std::string state =
          "checkpoint directory " + directory.string() + " is being written by " + describe(owner);
      wait_for_exit(owner, deadline,
                    [&] { write_log(log, LogLevel::warn, state + ": waiting for it to end"); });
      if (!try_lock(fd_, file)) {
        throw Error(Errc::usage, state + ": give each run its own");
      }
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
  write_owner(fd_);
}

WriterLock::~WriterLock() {
  ::close(fd_);
}

bool WriterLock::is_held(const std::filesystem::path& directory) {
  const auto file = directory / kFileName;
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno != ENOENT;
  auto lock = whole_file();
  const bool is_free = ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
  ::close(fd);
  return !is_free;
}

}  // namespace ddprun
