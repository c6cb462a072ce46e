#include "launcher/process/cgroup.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/folder_lock.hpp"
#include "launcher/process/proc_scan.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/sched.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// Returns the cgroup's folder and all below it, parents first.
std::vector<fs::path> folders_of(const fs::path& folder) {
  std::vector<fs::path> folders{folder};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error)) folders.push_back(entry->path());
  }
  return folders;
}

// A concurrent start that ends stale runs may take a new cgroup for a stale one, but rarely twice.
constexpr int kCreationsMax = 3;

/// Tests whether processes can be started in the cgroup, which depends on permissions, delegation
/// and the kernel's version.
int try_start_in(int cgroup_fd) {
  clone_args arguments{};
  arguments.flags = CLONE_INTO_CGROUP;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = static_cast<std::uint64_t>(cgroup_fd);
  const long child = ::syscall(SYS_clone3, &arguments, sizeof(arguments));
  if (child == 0) {
    while (true) ::syscall(SYS_exit_group, 0);
  }
  if (child < 0) return errno;
  int status = 0;
  while (::waitpid(static_cast<pid_t>(child), &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? ECANCELED : 0;
}

}  // namespace

std::optional<Cgroup> Cgroup::create(const std::string& name, std::string& reason) {
  const auto own = own_cgroup(read_text("/proc/self/cgroup"), read_text("/proc/self/mounts"));
  if (!own) {
    reason = "no cgroup2 hierarchy is mounted";
    return std::nullopt;
  }
  const fs::path folder = own->folder / name;
  std::optional<Cgroup> cgroup;
  for (int i = 0; !cgroup && i < kCreationsMax; ++i) {
    const bool is_made = ::mkdir(folder.c_str(), 0755) == 0;
    if (!is_made && errno == EEXIST && i > 0) break;  // still being removed
    if (is_made) cgroup = mark_in_use(folder);
    const bool is_taken_away = is_made && (errno == ENOENT || errno == EWOULDBLOCK);
    if (cgroup || is_taken_away) continue;
    reason = folder.string() + ": " + std::strerror(errno);
    if (is_made) ::rmdir(folder.c_str());
    return std::nullopt;
  }
  if (!cgroup) {
    reason = folder.string() + " is removed by another process";
    return std::nullopt;
  }
  if (const int error = try_start_in(cgroup->fd_); error != 0) {
    ::rmdir(folder.c_str());
    reason = folder.string() + ": no process can be started in it: " + std::strerror(error);
    return std::nullopt;
  }
  return cgroup;
}

std::optional<Cgroup> Cgroup::open(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  return Cgroup(folder, fd);
}

std::optional<Cgroup> Cgroup::mark_in_use(const fs::path& folder) {
  UniqueFd lock = lock_folder(folder);
  if (lock.get() < 0) return std::nullopt;
  return Cgroup(folder, lock.release());
}

Cgroup Cgroup::make_child(const std::string& name) const {
  const fs::path folder = folder_ / name;
  if (::mkdir(folder.c_str(), 0755) != 0) throw_system_error("cgroup " + folder.string(), errno);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_system_error("cgroup " + folder.string(), errno);
  return Cgroup(folder, fd);
}

Cgroup::Cgroup(Cgroup&& other) noexcept
    : folder_(std::move(other.folder_)), fd_(std::exchange(other.fd_, -1)) {}

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(fd_, other.fd_);
  return *this;
}

Cgroup::~Cgroup() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<pid_t> Cgroup::members() const {
  std::vector<pid_t> pids;
  for (const auto& folder : folders_of(folder_)) {
    std::ifstream list(folder / "cgroup.procs");
    for (pid_t pid = 0; list >> pid;) pids.push_back(pid);
  }
  return pids;
}

bool Cgroup::is_populated() const {
  return has_event(open_events(), kPopulated);
}

bool Cgroup::is_empty() const {
  return has_event(open_events(), "populated 0");
}

bool Cgroup::is_frozen() const {
  return has_event(open_events(), "frozen 1");
}

void Cgroup::wait_until_empty(Deadline deadline) const {
  wait_while(kPopulated, deadline);
}

UniqueFd Cgroup::open_events() const {
  return UniqueFd(::open((folder_ / "cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
}

bool Cgroup::has_event(const UniqueFd& events, std::string_view event) {
  std::array<char, 256> text{};
  // Reading re-arms the notification, so later changes are not missed.
  const auto count = ::pread(events.get(), text.data(), text.size(), 0);
  const std::string_view content(text.data(),
                                 static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return content.find(event) != std::string_view::npos;
}

void Cgroup::wait_while(std::string_view event, Deadline deadline) const {
  const auto events = open_events();
  while (!deadline.passed() && has_event(events, event)) {
    pollfd change{.fd = events.get(), .events = POLLPRI, .revents = 0};
    ::poll(&change, 1, deadline.remaining_poll_milliseconds());
  }
}

bool Cgroup::write_file(const char* name, char byte) const noexcept {
  // Opened by path: the guardian has closed all descriptors.
  const int fd = ::open((folder_ / name).c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_done = ::write(fd, &byte, 1) == 1;
  ::close(fd);
  return is_done;
}

bool Cgroup::kill() const noexcept {
  return write_file("cgroup.kill", '1');
}

void Cgroup::freeze(Deadline deadline) const {
  if (write_file("cgroup.freeze", '1')) wait_while("frozen 0", deadline);
}

void Cgroup::thaw() const noexcept {
  write_file("cgroup.freeze", '0');
}

std::vector<Cgroup::Stale> Cgroup::end_stale_runs(Deadline deadline) {
  std::vector<Stale> met;
  const auto own = own_cgroup(read_text("/proc/self/cgroup"), read_text("/proc/self/mounts"));
  if (!own) return met;
  std::error_code error;
  for (fs::directory_iterator entry(own->folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_prefix_and_word(entry->path().filename().string(), kRunCgroupPrefix)) continue;
    UniqueFd lock = lock_unused_folder(entry->path());
    if (lock.get() < 0) continue;
    const Cgroup cgroup(entry->path(), lock.release());
    const auto begin = met.size();
    for (const pid_t pid : cgroup.members()) {
      met.push_back({.pid = pid, .name = thread_name(pid, pid)});
    }
    if (cgroup.kill()) cgroup.wait_until_empty(deadline);
    const auto left = cgroup.members();
    for (auto i = begin; i < met.size(); ++i) {
      met[i].is_left = std::find(left.begin(), left.end(), met[i].pid) != left.end();
    }
    cgroup.remove();
  }
  return met;
}

void Cgroup::remove() const noexcept {
  auto folders = folders_of(folder_);
  std::reverse(folders.begin(), folders.end());
  for (const auto& folder : folders) ::rmdir(folder.c_str());
}

}  // namespace ddprun
