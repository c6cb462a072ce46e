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
  std::filesystem::path mount;   ///< mount point of the hierarchy
  std::filesystem::path folder;  ///< of this process' cgroup: the mount or a folder below it
};

/// Returns this process' cgroup, from the texts of /proc/self/cgroup and /proc/self/mounts. If
/// `controller` (such as "memory") is set, uses its version 1 hierarchy; otherwise the unified
/// hierarchy (version 2). Returns nullopt if the hierarchy does not exist.
std::optional<CgroupFolder> own_cgroup(std::string_view cgroup_text, std::string_view mounts_text,
                                       std::string_view controller = {});

/// Returns the existing cgroups of this process in the unified hierarchy and in the hierarchy with
/// `controller`. `root` replaces "/".
std::vector<CgroupFolder> own_cgroups(const std::filesystem::path& root,
                                      std::string_view controller);

/// Returns the whole text of a small file; empty if it cannot be read.
std::string read_text(const std::filesystem::path& file);

}  // namespace ddprun
