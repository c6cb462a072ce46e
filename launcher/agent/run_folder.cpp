#include "launcher/agent/run_folder.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/plan/log_layout.hpp"
#include "launcher/process/folder_lock.hpp"
#include "launcher/process/own_folder.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

// A concurrent start that removes stale folders may take a new folder for stale, but rarely twice.
constexpr int kCreationsMax = 3;
// Maximum entries read of the temporary directory, so that reading does not delay the start. 65,536
// take some 20 ms.
constexpr int kEntriesMax = 65'536;

/// Returns the prefix of the names of temporary folders. It contains the start of the boot ID,
/// since machines that share a file system may not share its locks.
std::string temporary_prefix() {
  constexpr std::size_t kDigits = 8;
  auto boot = read_text("/proc/sys/kernel/random/boot_id");
  if (boot.size() < kDigits) boot = random_word();
  return "ddprun-" + boot.substr(0, kDigits) + "-";
}

[[noreturn]] void throw_no_temporary_folder(const fs::path& folder, int error) {
  const std::string what = "TMPDIR: folder " + folder.string() + " cannot be created";
  if (error == EMFILE || error == ENFILE) throw_system_error(what, error);
  throw Error(Errc::system,
              what + ": " + std::strerror(error) +
                  "; set TMPDIR to a folder that exists, is writable and has free space",
              error);
}

bool belongs_to_user(const UniqueFd& folder) {
  struct stat status {};
  return ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid();
}

/// Returns true if no other user can rename a folder in `parent`.
bool is_safe_parent(const fs::path& parent) {
  struct stat status {};
  if (::stat(parent.c_str(), &status) != 0) return false;
  const bool is_sticky = (status.st_mode & S_ISVTX) != 0;
  return (status.st_uid == 0 || status.st_uid == ::geteuid()) &&
         (is_sticky || (status.st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

/// Removes folders of runs that ended without removing them.
void remove_stale_folders(const fs::path& parent) {
  if (!is_safe_parent(parent)) return;
  std::error_code error;
  const auto prefix = temporary_prefix();
  int entries = 0;
  for (fs::directory_iterator entry(parent, error), end;
       !error && entry != end && entries < kEntriesMax; entry.increment(error), ++entries) {
    if (!is_prefix_and_word(entry->path().filename().string(), prefix)) continue;
    const auto lock = lock_unused_folder(entry->path());
    if (lock.get() < 0 || !belongs_to_user(lock)) continue;
    remove_contents(lock.get());
    ::rmdir(entry->path().c_str());
  }
}

/// Removes empty files and folders below `folder`.
void remove_empty(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    if (fs::is_empty(*path, error)) fs::remove(*path, error);
  }
}

}  // namespace

RunFolder::RunFolder(const LaunchPlan& plan)
    : is_kept_(plan.log_dir.has_value()),
      is_temporary_(!is_kept_ || plan.is_log_dir_temporary),
      removes_empty_folders_(is_kept_ && !has_stream_files(plan)),
      temporary_directory_(plan.temporary_directory) {
  remove_stale_folders(temporary_directory_);
  if (!is_kept_) {
    make_temporary();
    return;
  }
  path_ = run_folder(*plan.log_dir, plan);
  if (is_temporary_) log_folder_ = open_parent();
}

RunFolder::RunFolder(RunFolder& outer, const std::string& name)
    : outer_(&outer),
      is_kept_(true),
      is_temporary_(outer.is_temporary_),
      removes_empty_folders_(outer.removes_empty_folders_),
      path_(outer.path_ / name) {}

RunFolder::~RunFolder() {
  if (!is_kept_) {
    // An empty folder is removed by path, which needs no descriptor: descriptors may be exhausted.
    if (::rmdir(path_.c_str()) == 0) return;
    remove_contents(folder_->get());
    ::rmdir(path_.c_str());
    return;
  }
  const bool removes_empty = !have_workers_started_ || removes_empty_folders_;
  if (removes_empty && folder_) remove_empty(path_of_descriptor(folder_->get()));
  for (auto made = made_.rbegin(); made != made_.rend(); ++made)
    ::unlinkat(made->parent->get(), made->name.c_str(), AT_REMOVEDIR);  // fails if it is in use
}

HeldPath RunFolder::file(const std::string& name) const {
  return folder_ ? HeldPath(folder_, path_) / name : HeldPath();
}

void RunFolder::make_temporary() {
  const auto prefix = temporary_prefix();
  for (int i = 0; i < kCreationsMax; ++i) {
    path_ = temporary_directory_ / (prefix + random_word());
    if (try_to_make_temporary()) return;
  }
  throw Error(Errc::system, "TMPDIR: folder " + (temporary_directory_ / prefix).string() +
                                "* cannot be created: other runs remove it immediately");
}

/// Returns false if a concurrent start is about to remove the folder.
bool RunFolder::try_to_make_temporary() {
  const auto name = path_.filename().string();
  const auto parent = open_parent();
  UniqueFd folder = make_own_folder(parent->get(), name, 0700);
  int error = folder.get() < 0 ? errno : 0;
  if (error == 0) {
    lock_ = lock_folder(name, parent->get());
    error = lock_.get() < 0 ? errno : 0;
  } else if (error != ENOENT && error != EMFILE && error != ENFILE) {
    throw_not_made(path_, error);
  }
  if (error == EWOULDBLOCK || error == ENOENT) return false;
  if (error == EMFILE || error == ENFILE) {
    ::unlinkat(parent->get(), name.c_str(), AT_REMOVEDIR);
    throw_not_made(path_, error);
  }
  // On a file system without locks, a later start cannot lock it either, and removes nothing.
  hold(std::move(folder));
  return true;
}

/// Creates the run's folder unless it exists, and opens it.
void RunFolder::make() {
  if (!is_kept_) {
    if (!try_to_make_temporary()) throw_not_made(path_, EAGAIN);
    return;
  }
  const auto parent = log_folder_ ? std::move(log_folder_) : open_parent();
  const auto name = path_.filename().string();
  UniqueFd folder = make_own_folder(parent->get(), name, 0700);
  if (folder.get() < 0) throw_not_made(path_, errno);
  note_made(parent, name);
  hold(std::move(folder));
}

/// Keeps the number of the previous descriptor, which other parts may have stored.
void RunFolder::hold(UniqueFd folder) {
  if (!folder_) {
    folder_ = std::make_shared<const UniqueFd>(std::move(folder));
  } else if (::dup3(folder.get(), folder_->get(), O_CLOEXEC) < 0) {
    throw_not_made(path_, errno);
  }
}

RunFolder::Folder RunFolder::open_parent() {
  if (outer_ != nullptr) {
    if (!outer_->folder_) outer_->make();
    return outer_->folder_;
  }
  if (is_kept_) return open_log_folder(path_.parent_path());
  UniqueFd parent(::open(temporary_directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0) throw_not_made(path_, errno);
  return std::make_shared<const UniqueFd>(std::move(parent));
}

/// Follows symbolic links, since the operator has given the path. Creates missing parents, but not
/// the temporary directory.
RunFolder::Folder RunFolder::open_log_folder(const fs::path& path) {
  UniqueFd folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  int error = folder.get() < 0 ? errno : 0;
  const auto above = path.parent_path();
  if (error == ENOENT && above.has_filename() && !is_temporary_directory(path)) {
    const auto parent = open_log_folder(above);
    const auto name = path.filename().string();
    const bool is_made = ::mkdirat(parent->get(), name.c_str(), is_temporary_ ? 0700 : 0777) == 0;
    if (!is_made && errno != EEXIST) throw_not_made(path, errno);
    if (is_made) note_made(parent, name);
    folder = open_beneath(parent->get(), name, O_PATH | O_DIRECTORY);
    error = folder.get() < 0 ? errno : 0;
  }
  if (error != 0) throw_not_made(is_temporary_directory(path) ? path_.parent_path() : path, error);
  return std::make_shared<const UniqueFd>(std::move(folder));
}

bool RunFolder::is_temporary_directory(const fs::path& path) const {
  return is_temporary_ && path == temporary_directory_;
}

void RunFolder::note_made(const Folder& parent, const std::string& name) {
  if (!have_workers_started_) made_.push_back({.parent = parent, .name = name});
}

void RunFolder::throw_not_made(const fs::path& folder, int error) const {
  if (is_temporary_) throw_no_temporary_folder(folder, error);
  throw Error(Errc::system, no_log_folder(folder, std::strerror(error)), error);
}

/// Returns 0 or an errno value.
int RunFolder::make_in_attempt(int attempt, const std::string& name) {
  if (!folder_) make();
  if (!attempt_folder_ || attempt_ != attempt) {
    const auto path = worker_folder(path_, attempt, 0).parent_path();
    UniqueFd folder = make_own_folder(folder_->get(), path.filename(), 0777);
    if (folder.get() < 0) return errno;
    attempt_folder_ = std::make_shared<const UniqueFd>(std::move(folder));
    attempt_ = attempt;
  }
  const bool is_made = ::mkdirat(attempt_folder_->get(), name.c_str(), 0777) == 0;
  return is_made || errno == EEXIST ? 0 : errno;
}

HeldPath RunFolder::make_worker_folder(int attempt, int local_rank) {
  const auto path = worker_folder(path_, attempt, local_rank);
  int error = make_in_attempt(attempt, path.filename());
  if (error == ENOENT) {
    // The run's folder has been removed, for example by a service that cleans TMPDIR.
    attempt_folder_.reset();
    make();
    error = make_in_attempt(attempt, path.filename());
  }
  if (error != 0) throw_not_made(path, error);
  return HeldPath(attempt_folder_, path.parent_path()) / path.filename();
}

void RunFolder::note_workers_started() {
  have_workers_started_ = true;
  // The last one is the run's folder.
  if (!made_.empty()) made_.erase(made_.begin(), made_.end() - (removes_empty_folders_ ? 1 : 0));
}

void RunFolder::end_attempt(int attempt) {
  attempt_folder_.reset();
  if (is_kept_ || !folder_) return;
  std::error_code ignored;
  const auto name = worker_folder(path_, attempt, 0).parent_path().filename();
  fs::remove_all(path_of_descriptor(folder_->get()) / name, ignored);
}

std::string no_log_folder(const fs::path& folder, const std::string& problem) {
  return "--log_dir: folder " + folder.string() + " cannot be created: " + problem +
         "; choose a folder that is writable and has free space";
}

}  // namespace ddprun
