// Finds the cgroups of this process. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A cgroup in one hierarchy.
struct CgroupFolder {
  std::filesystem::path mount;   ///< of the hierarchy
  std::filesystem::path folder;  ///< of this process' cgroup: the mount or a folder below it
};

/// Returns this process' cgroup, from the texts of /proc/self/cgroup and /proc/self/mounts: in the
/// version 1 hierarchy with `controller`, such as "memory"; if `controller` is empty, in the
/// unified hierarchy (version 2). Returns nullopt if there is no such hierarchy.
std::optional<CgroupFolder> own_cgroup(std::string_view cgroup_text, std::string_view mounts_text,
                                       std::string_view controller = {});

/// Returns the cgroups in the unified hierarchy and in that with `controller`, if they exist;
/// `root` replaces "/".
std::vector<CgroupFolder> own_cgroups(const std::filesystem::path& root,
                                      std::string_view controller);

/// Returns the whole text of a small file; empty if it cannot be read.
std::string read_text(const std::filesystem::path& file);

}  // namespace ddprun
