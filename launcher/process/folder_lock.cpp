#include "launcher/process/folder_lock.hpp"

#include "rendezvous/base/random_bytes.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace ddprun {

namespace {

UniqueFd open_folder(const std::filesystem::path& folder, int parent = AT_FDCWD) {
  return UniqueFd(
      ::openat(parent, folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

std::string random_word() {
  return hexadecimal(random_bytes(kWordLetters / 2));
}

bool is_prefix_and_word(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && is_hexadecimal(name.substr(prefix.size()), kWordLetters);
}

UniqueFd lock_folder(const std::filesystem::path& folder, int parent) {
  UniqueFd fd = open_folder(folder, parent);
  if (fd.get() < 0 || ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0) return UniqueFd();
  // A later start may have removed it between the two calls.
  if (::faccessat(parent, folder.c_str(), F_OK, 0) != 0) return UniqueFd();
  return fd;
}

UniqueFd lock_unused_folder(const std::filesystem::path& folder) {
  UniqueFd fd = open_folder(folder);
  if (fd.get() < 0 || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return UniqueFd();
  return fd;
}

}  // namespace ddprun
