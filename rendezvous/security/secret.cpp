#include "rendezvous/security/secret.hpp"

#include "rendezvous/base/error_text.hpp"
#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/security/crypto.hpp"
#include "rendezvous/security/private_file.hpp"
#include <ddprun/error.hpp>

#include <bitset>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::security {

namespace {

/// Closes itself.
class File {
 public:
  File(const std::string& path, int flags, mode_t mode = 0)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

[[noreturn]] void refuse(const std::string& origin, const std::string& why) {
  throw Error(Errc::usage, origin + ": " + why);
}

std::string read_all(int fd, const std::string& origin) {
  // One more than the maximum, to detect longer files; never enlarged, so no copies are left in
  // memory.
  std::string bytes(kSecretBytesMax + 1, '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const auto got = ::read(fd, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error(origin, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

/// Refuses a folder in which all users can replace files. A group is trusted: it is often the
/// user's own.
void check_folder_of(const std::string& path) {
  struct stat status {};
  const auto folder = std::filesystem::path(path).parent_path();
  if (::stat(folder.empty() ? "." : folder.c_str(), &status) != 0) return;
  if ((status.st_mode & (S_IWOTH | S_ISVTX)) != S_IWOTH) return;
  throw Error(Errc::system, path +
                                ": other users can replace files in its folder; give a file in "
                                "a folder that others cannot write to");
}

[[noreturn]] void throw_not_written(const std::string& path, int error) {
  throw Error(Errc::system,
              path + ": cannot be written: " + error_text(error) +
                  "; give a file in a folder that exists, is writable and has free space",
              error);
}

/// False and errno if not all of it is on the disk.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0;
}

}  // namespace

Secret Secret::from_bytes(std::string bytes, const std::string& origin) {
  Secret secret(std::move(bytes));
  auto& kept = secret.bytes_;
  while (!kept.empty() && (kept.back() == '\n' || kept.back() == '\r')) kept.pop_back();
  if (kept.size() < kSecretBytesMin || kept.size() > kSecretBytesMax) {
    refuse(origin, "a secret must be " + std::to_string(kSecretBytesMin) + " to " +
                       std::to_string(kSecretBytesMax) + " bytes long; this one " +
                       (kept.size() > kSecretBytesMax ? "is longer"
                                                      : "has " + std::to_string(kept.size())) +
                       "; create one with 'ddprun keygen FILE'");
  }
  return secret;
}

int Secret::different_bytes() const {
  std::bitset<256> seen;
  for (const char byte : bytes_) seen.set(static_cast<unsigned char>(byte));
  return static_cast<int>(seen.count());
}

Secret& Secret::operator=(Secret&& other) noexcept {
  std::swap(bytes_, other.bytes_);  // `other` wipes the old bytes
  return *this;
}

Secret::~Secret() {
  wipe(bytes_.data(), bytes_.size());
}

Secret read_secret(const std::string& path, const std::string& origin) {
  // Does not wait for a writer if the path is a FIFO.
  const File file(path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) throw_system_error(origin, errno);
  check_private(status, path, origin);
  return Secret::from_bytes(read_all(file.fd(), origin), origin);
}

void write_new_secret(const std::string& path) {
  auto bytes = random_bytes(kDigestBytes);
  const Secret line(Secret::from_bytes(hexadecimal(bytes), path));
  wipe(bytes.data(), bytes.size());
  check_folder_of(path);
  const File file(path, O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  if (file.fd() < 0 && errno == EEXIST) {
    throw Error(Errc::system,
                path +
                    ": exists already, and other nodes may use it; remove it first, or give "
                    "another name",
                EEXIST);
  }
  if (file.fd() < 0) throw_not_written(path, errno);
  if (write_all(file.fd(), line.bytes()) && write_all(file.fd(), "\n")) return;
  const int error = errno;
  ::unlink(path.c_str());
  throw_not_written(path, error);
}

}  // namespace ddprun::security
