#include "launcher/process/own_folder.hpp"

#include "launcher/process/folder_lock.hpp"
#include "rendezvous/base/held_path.hpp"

#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <system_error>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

std::optional<uid_t> owner_of(int fd) {
  struct stat status {};
  return fd >= 0 && ::fstat(fd, &status) == 0 ? std::optional(status.st_uid) : std::nullopt;
}

/// A file system may assign another owner to new files, as NFS does for root; the owner of a new
/// file is then authoritative.
bool is_own(int folder) {
  const auto owner = owner_of(folder);
  if (owner == ::geteuid()) return true;
  const auto probe = ".ddprun-" + random_word();
  const auto file = open_beneath(folder, probe, O_WRONLY | O_CREAT | O_EXCL, 0600);
  const auto creator = owner_of(file.get());
  if (creator) ::unlinkat(folder, probe.c_str(), 0);
  return creator && creator == owner;
}

}  // namespace

UniqueFd make_own_folder(int parent, const std::string& name, mode_t mode) {
  if (::mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) return UniqueFd();
  UniqueFd folder = open_beneath(parent, name, O_PATH | O_DIRECTORY);
  if (folder.get() < 0 || is_own(folder.get())) return folder;
  folder = UniqueFd();
  errno = EPERM;
  return folder;
}

fs::path path_of_descriptor(int folder) {
  return fs::path("/proc/self/fd") / std::to_string(folder);
}

void remove_contents(int folder) {
  std::error_code error;
  std::error_code ignored;
  for (fs::directory_iterator entry(path_of_descriptor(folder), error), end; !error && entry != end;
       entry.increment(error)) {
    fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace ddprun
