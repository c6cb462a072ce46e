#include "rendezvous/base/held_path.hpp"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <utility>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

UniqueFd failed(int error) {
  errno = error;
  return UniqueFd();
}

/// With O_PATH, O_NOFOLLOW opens the link itself.
bool is_link(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISLNK(status.st_mode);
}

/// 0, or why it is not a regular file with one link.
int problem_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return ENXIO;
  return status.st_nlink > 1 ? EMLINK : 0;
}

}  // namespace

UniqueFd open_beneath(int folder, const fs::path& name, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const auto fd =
      ::syscall(SYS_openat2, folder, name.empty() ? "." : name.c_str(), &how, sizeof how);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM))
    return open_beneath_by_component(folder, name, flags, mode);
  return UniqueFd(static_cast<int>(fd));
}

UniqueFd open_beneath_by_component(int folder, const fs::path& name, int flags, mode_t mode) {
  if (name.is_absolute()) return failed(EXDEV);
  for (const auto& component : name) {
    if (component == "..") return failed(EXDEV);
  }
  UniqueFd parent;
  int parent_fd = folder;
  for (const auto& component : name.parent_path()) {
    UniqueFd next(
        ::openat(parent_fd, component.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (next.get() < 0) return next;
    parent = std::move(next);
    parent_fd = parent.get();
  }
  const auto last = name.filename();
  UniqueFd fd(
      ::openat(parent_fd, last.empty() ? "." : last.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
  return fd.get() >= 0 && (flags & O_PATH) != 0 && is_link(fd.get()) ? failed(ELOOP)
                                                                     : std::move(fd);
}

std::string read_at_most(int fd, std::size_t bytes_max) {
  std::string text(bytes_max, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

HeldPath::HeldPath(fs::path path) : path_(std::move(path)) {}

HeldPath::HeldPath(const char* path) : path_(path) {}

HeldPath::HeldPath(std::shared_ptr<const UniqueFd> folder, fs::path path)
    : folder_(std::move(folder)), path_(std::move(path)) {}

HeldPath HeldPath::operator/(const fs::path& name) const {
  HeldPath file(folder_, path_ / name);
  file.name_ = name_ / name;
  return file;
}

HeldPath HeldPath::parent_path() const {
  HeldPath parent(folder_, path_.parent_path());
  parent.name_ = name_.parent_path();
  return parent;
}

UniqueFd HeldPath::open(int flags, mode_t mode) const {
  if (folder_) return open_beneath(folder_->get(), name_, flags, mode);
  return UniqueFd(::open(path_.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
}

UniqueFd HeldPath::open_regular(int flags, mode_t mode) const {
  UniqueFd fd = open((flags & ~O_TRUNC) | O_NONBLOCK | O_NOCTTY, mode);
  if (fd.get() < 0) return fd;
  int problem = problem_of(fd.get());
  if (problem == 0 && (flags & O_TRUNC) != 0 && ::ftruncate(fd.get(), 0) != 0) problem = errno;
  return problem == 0 ? std::move(fd) : failed(problem);
}

}  // namespace ddprun
