#include "launcher/agent/run_folder.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/plan/log_layout.hpp"
#include "launcher/process/folder_lock.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
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

fs::path make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_system_error("folder " + path.string() + " cannot be made", error.value());
  return path;
}

fs::path make_log_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return path;
  throw Error(Errc::usage,
              "--log_dir: folder " + path.string() + " cannot be made: " + error.message());
}

/// The name of each temporary folder before its word. The start of the boot's id is part of it: a
/// file system that machines share need not share locks between them.
std::string temporary_prefix() {
  constexpr std::size_t kDigits = 8;
  auto boot = read_text("/proc/sys/kernel/random/boot_id");
  if (boot.size() < kDigits) boot = random_word();
  return "ddprun-" + boot.substr(0, kDigits) + "-";
}

fs::path parent_of_temporary_folders() {
  std::error_code error;
  const auto folder = fs::temp_directory_path(error);
  if (error) throw_system_error("there is no temporary folder (see TMPDIR)", error.value());
  return folder;
}

fs::path make_temporary_folder(UniqueFd& lock) {
  const auto parent = parent_of_temporary_folders();
  const auto prefix = temporary_prefix();
  for (int i = 0; i < kCreationsMax; ++i) {
    const auto folder = parent / (prefix + random_word());
    const auto what = "folder " + folder.string() + " cannot be made";
    if (::mkdir(folder.c_str(), 0700) != 0) throw_system_error(what, errno);
    lock = lock_folder(folder);
    const int error = lock.get() < 0 ? errno : 0;
    if (error == EWOULDBLOCK || error == ENOENT) continue;
    // Where the file system has no locks a later start gets none, either, and removes nothing.
    if (error != EMFILE && error != ENFILE) return folder;
    ::rmdir(folder.c_str());
    throw_system_error(what, error);
  }
  throw Error(Errc::system, "folder " + (parent / prefix).string() +
                                "* cannot be made: other runs remove it at once");
}

bool is_own(const UniqueFd& folder) {
  struct stat status {};
  return ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid();
}

/// Those of runs that ended without removing them.
void remove_stale_folders() {
  std::error_code error;
  const auto parent = fs::temp_directory_path(error);
  if (error) return;
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

}  // namespace

RunFolder::RunFolder(const LaunchPlan& plan) : is_kept_(plan.log_dir.has_value()) {
  remove_stale_folders();
  path_ =
      is_kept_ ? make_log_folder(run_folder(*plan.log_dir, plan)) : make_temporary_folder(lock_);
}

RunFolder::~RunFolder() {
  if (is_kept_) return;
  std::error_code error;
  // An empty one goes without a descriptor, of which there may be none left.
  if (!fs::remove(path_, error)) fs::remove_all(path_, error);
}

fs::path RunFolder::make_worker_folder(int attempt, int local_rank) const {
  return make_folder(worker_folder(path_, attempt, local_rank));
}

void RunFolder::end_attempt(int attempt) const {
  std::error_code ignored;
  if (!is_kept_) fs::remove_all(worker_folder(path_, attempt, 0).parent_path(), ignored);
}

}  // namespace ddprun
