#include "launcher/agent/run_folder.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/plan/log_layout.hpp"
#include "launcher/process/folder_lock.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

// A start that removes stale folders may take a new one for stale, but hardly twice.
constexpr int kCreationsMax = 3;
// Of the folder that holds the temporary folders: reading them must not delay the start. 65,536
// take some 20 ms.
constexpr int kEntriesMax = 65'536;

/// The name of each temporary folder before its word. The start of the boot's id is part of it: a
/// file system that machines share need not share locks between them.
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

void make_new_folder(const fs::path& folder, mode_t mode) {
  if (::mkdir(folder.c_str(), mode) != 0) throw_no_temporary_folder(folder, errno);
}

bool is_own(const UniqueFd& folder) {
  struct stat status {};
  return ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid();
}

/// Those of runs that ended without removing them.
void remove_stale_folders(const fs::path& parent) {
  std::error_code error;
  const auto prefix = temporary_prefix();
  int entries = 0;
  for (fs::directory_iterator entry(parent, error), end;
       !error && entry != end && entries < kEntriesMax; entry.increment(error), ++entries) {
    if (!is_prefix_and_word(entry->path().filename().string(), prefix)) continue;
    const auto lock = lock_unused_folder(entry->path());
    if (lock.get() < 0 || !is_own(lock)) continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
  }
}

/// Removes empty files and folders below `folder`, and the folder itself if it is empty then.
void remove_empty(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths = {folder};
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
      temporary_directory_(plan.temporary_directory) {
  remove_stale_folders(temporary_directory_);
  if (!is_kept_) {
    path_ = make_temporary_folder();
    return;
  }
  path_ = run_folder(*plan.log_dir, plan);
  if (!is_temporary_) return;
  make_new_folder(*plan.log_dir, 0777);
  made_.push_back(*plan.log_dir);
}

RunFolder::~RunFolder() {
  std::error_code error;
  if (!is_kept_) {
    // An empty one is removed without a descriptor, of which there may be none left.
    if (!fs::remove(path_, error)) fs::remove_all(path_, error);
  } else if (!have_workers_started_) {
    remove_empty(path_);
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
      ::rmdir(folder->c_str());  // not if it is in use
  }
}

fs::path RunFolder::make_temporary_folder() {
  const auto prefix = temporary_prefix();
  for (int i = 0; i < kCreationsMax; ++i) {
    const auto folder = temporary_directory_ / (prefix + random_word());
    make_new_folder(folder, 0700);
    lock_ = lock_folder(folder);
    const int error = lock_.get() < 0 ? errno : 0;
    if (error == EWOULDBLOCK || error == ENOENT) continue;
    // Where the file system has no locks a later start gets none, either, and removes nothing.
    if (error != EMFILE && error != ENFILE) return folder;
    ::rmdir(folder.c_str());
    throw_no_temporary_folder(folder, error);
  }
  throw Error(Errc::system, "TMPDIR: folder " + (temporary_directory_ / prefix).string() +
                                "* cannot be created: other runs remove it at once");
}

/// Creates the folder and those that are missing above it, but not the temporary directory.
void RunFolder::make_folders(const fs::path& folder) {
  int error = ::mkdir(folder.c_str(), 0777) == 0 ? 0 : errno;
  const auto parent = folder.parent_path();
  if (error == ENOENT && parent.has_filename() &&
      (!is_temporary_ || parent != temporary_directory_)) {
    make_folders(parent);
    error = ::mkdir(folder.c_str(), 0777) == 0 ? 0 : errno;
  }
  if (error == 0) {
    if (!have_workers_started_) made_.push_back(folder);
  } else if (error != EEXIST) {
    if (is_temporary_) throw_no_temporary_folder(folder, error);
    throw Error(Errc::system, no_log_folder(folder, std::strerror(error)), error);
  }
}

fs::path RunFolder::make_worker_folder(int attempt, int local_rank) {
  auto folder = worker_folder(path_, attempt, local_rank);
  make_folders(folder);
  return folder;
}

void RunFolder::end_attempt(int attempt) const {
  std::error_code ignored;
  if (!is_kept_) fs::remove_all(worker_folder(path_, attempt, 0).parent_path(), ignored);
}

std::string no_log_folder(const fs::path& folder, const std::string& problem) {
  return "--log_dir: folder " + folder.string() + " cannot be created: " + problem +
         "; choose a folder that is writable and has free space";
}

}  // namespace ddprun
