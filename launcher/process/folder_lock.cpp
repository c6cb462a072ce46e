#include "launcher/process/folder_lock.hpp"

#include <ddprun/error.hpp>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

namespace ddprun {

namespace {

UniqueFd open_folder(const std::filesystem::path& folder, int parent = AT_FDCWD) {
  return UniqueFd(
      ::openat(parent, folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

std::string random_word() {
  std::array<unsigned char, kWordLetters / 2> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw_system_error("getrandom", errno);
  std::string word;
  for (const unsigned char byte : bytes) {
    word += "0123456789abcdef"[byte >> 4];
    word += "0123456789abcdef"[byte & 15];
  }
  return word;
}

bool is_prefix_and_word(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() == prefix.size() + kWordLetters &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string_view::npos;
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
