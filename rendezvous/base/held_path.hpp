// Files in folders that another user may rename or replace: the folder is held by a descriptor, and
// files in it are opened relative to it, without symbolic links. Thread-safe.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/types.h>

namespace ddprun {

/// As openat(2) with O_CLOEXEC, but never outside the folder (O_PATH suffices for it): a symbolic
/// link in any component, "..", and an absolute name are errors. Returns no descriptor and sets
/// errno on an error.
UniqueFd open_beneath(int folder, const std::filesystem::path& name, int flags, mode_t mode = 0);

/// The same without openat2(2), which kernels before 5.6 lack and sandboxes may refuse: opens each
/// component by itself.
UniqueFd open_beneath_by_component(int folder, const std::filesystem::path& name, int flags,
                                   mode_t mode = 0);

/// Reads from the current offset to the end, at most `bytes_max` bytes.
std::string read_at_most(int fd, std::size_t bytes_max);

/// The path of a file or folder, and how to open it. Beneath a held folder the path is for messages
/// and for other programs: what it leads to may have changed.
class HeldPath {
 public:
  HeldPath() = default;

  /// A path that is not held: it is opened as it is, but for a link in its last component.
  HeldPath(std::filesystem::path path);  // NOLINT(google-explicit-constructor)
  HeldPath(const char* path);            // NOLINT(google-explicit-constructor)

  /// The folder itself, which has that path.
  HeldPath(std::shared_ptr<const UniqueFd> folder, std::filesystem::path path);

  /// A file or folder in this folder.
  HeldPath operator/(const std::filesystem::path& name) const;

  /// The folder of this path; not for the held folder itself.
  HeldPath parent_path() const;

  const std::filesystem::path& path() const { return path_; }
  bool empty() const { return path_.empty(); }

  /// False if it is opened by its path.
  bool is_held() const { return folder_ != nullptr; }

  /// As open_beneath(), or as open(2) with O_NOFOLLOW and O_CLOEXEC if no folder is held.
  UniqueFd open(int flags, mode_t mode = 0) const;

  /// The same for a regular file with one link; does not wait for the other end of a FIFO. Returns
  /// no descriptor and sets errno for anything else: EISDIR, EMLINK, ENXIO. O_TRUNC takes effect
  /// only without these errors.
  UniqueFd open_regular(int flags, mode_t mode = 0) const;

 private:
  std::shared_ptr<const UniqueFd> folder_;  ///< null: not held
  std::filesystem::path name_;              ///< beneath it
  std::filesystem::path path_;
};

}  // namespace ddprun
