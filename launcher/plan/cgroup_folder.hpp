// Finds the folders of this process' cgroups. Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// One hierarchy of cgroups.
struct CgroupFolder {
  std::filesystem::path mount;   ///< of the hierarchy
  std::filesystem::path folder;  ///< of this process' cgroup, the mount itself or below it
};

/// This process' cgroup from the texts of /proc/self/cgroup and /proc/self/mounts: in the hierarchy
/// (version 1) with `controller`, e.g. "memory", or in the unified one (version 2) if it is empty.
/// Nothing if there is no such hierarchy.
std::optional<CgroupFolder> own_cgroup(std::string_view cgroup_text, std::string_view mounts_text,
                                       std::string_view controller = {});

/// The unified one and that with `controller`, as far as there are any; `root` stands for "/".
std::vector<CgroupFolder> own_cgroups(const std::filesystem::path& root,
                                      std::string_view controller);

/// The whole text of a small file; empty if it cannot be read.
std::string read_text(const std::filesystem::path& file);

}  // namespace ddprun
