// Files in folders that other users may rename or replace: a descriptor holds the folder, and its
// files are opened relative to it, without symbolic links. Thread-safe.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/types.h>

namespace ddprun {

/// Like openat(2) with O_CLOEXEC, but never outside the folder, which may be open with O_PATH: a
/// symbolic link in any component, ".." and an absolute name are errors. On an error, returns no
/// descriptor and sets errno.
UniqueFd open_beneath(int folder, const std::filesystem::path& name, int flags, mode_t mode = 0);

/// Like open_beneath(), but without openat2(2), which kernels before 5.6 lack and sandboxes may
/// reject. Opens the components one by one.
UniqueFd open_beneath_by_component(int folder, const std::filesystem::path& name, int flags,
                                   mode_t mode = 0);

/// Reads from the current offset to the end, but at most `bytes_max` bytes.
std::string read_at_most(int fd, std::size_t bytes_max);

/// The path of a file or folder, and how to open it. Beneath a held folder, the path is only for
/// messages and other programs, because it may now refer to another file.
class HeldPath {
 public:
  HeldPath() = default;

  /// A path that is not held. It is opened directly, except for a link in its last component.
  HeldPath(std::filesystem::path path);  // NOLINT(google-explicit-constructor)
  HeldPath(const char* path);            // NOLINT(google-explicit-constructor)

  /// A held folder with this path.
  HeldPath(std::shared_ptr<const UniqueFd> folder, std::filesystem::path path);

  /// Returns a file or folder in this folder.
  HeldPath operator/(const std::filesystem::path& name) const;

  /// Returns the parent folder. REQUIRES: the path is not the held folder itself.
  HeldPath parent_path() const;

  const std::filesystem::path& path() const { return path_; }
  bool empty() const { return path_.empty(); }

  /// Returns false if the file is opened by its path.
  bool is_held() const { return folder_ != nullptr; }

  /// Like open_beneath(); if no folder is held, like open(2) with O_NOFOLLOW and O_CLOEXEC.
  UniqueFd open(int flags, mode_t mode = 0) const;

  /// Opens a regular file with one link. Does not wait for the other end of a FIFO. For other
  /// files, returns no descriptor and sets errno: EISDIR, EMLINK, ENXIO. O_TRUNC takes effect only
  /// if there is no such error.
  UniqueFd open_regular(int flags, mode_t mode = 0) const;

 private:
  std::shared_ptr<const UniqueFd> folder_;  ///< null: not held
  std::filesystem::path name_;              ///< name beneath the folder
  std::filesystem::path path_;
};

}  // namespace ddprun
