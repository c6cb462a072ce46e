#include "launcher/process/memory_file.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

UniqueFd memory_file(const char* name, std::string_view bytes) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0 || ::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0) return UniqueFd();
  while (!bytes.empty()) {
    const auto count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return UniqueFd();
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace ddprun
