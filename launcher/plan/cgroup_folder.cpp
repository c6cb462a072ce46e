#include "launcher/plan/cgroup_folder.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

bool has_part(const std::string& list, std::string_view part) {
  const auto parts = split(list, ',');
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

/// Returns the path of this process' cgroup, without its first slash, from a line
/// "ID:CONTROLLERS:/PATH". An empty controller selects the unified hierarchy.
std::optional<std::string> path_in(std::string_view cgroup_text, std::string_view controller) {
  std::istringstream lines{std::string(cgroup_text)};
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const bool is_wanted =
        controller.empty() ? line.rfind("0::", 0) == 0 : has_part(controllers, controller);
    if (is_wanted && line.compare(second + 1, 1, "/") == 0) return line.substr(second + 2);
  }
  return std::nullopt;
}

std::optional<fs::path> mount_in(std::string_view mounts_text, std::string_view controller) {
  std::istringstream lines{std::string(mounts_text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string device, folder, type, options;
    if (!(fields >> device >> folder >> type >> options)) continue;
    const bool is_wanted =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && has_part(options, controller);
    if (is_wanted) return folder;
  }
  return std::nullopt;
}

}  // namespace

std::optional<CgroupFolder> own_cgroup(std::string_view cgroup_text, std::string_view mounts_text,
                                       std::string_view controller) {
  const auto path = path_in(cgroup_text, controller);
  const auto mount = mount_in(mounts_text, controller);
  // A path outside the mount belongs to another cgroup namespace.
  if (!path || !mount || path->rfind("..", 0) == 0) return std::nullopt;
  return CgroupFolder{.mount = *mount, .folder = path->empty() ? *mount : *mount / *path};
}

std::vector<CgroupFolder> own_cgroups(const fs::path& root, std::string_view controller) {
  const auto cgroups = read_text(root / "proc/self/cgroup");
  const auto mounts = read_text(root / "proc/self/mounts");
  std::vector<CgroupFolder> found;
  for (const auto& cgroup :
       {own_cgroup(cgroups, mounts), own_cgroup(cgroups, mounts, controller)}) {
    if (!cgroup) continue;
    found.push_back({.mount = root / cgroup->mount.relative_path(),
                     .folder = root / cgroup->folder.relative_path()});
  }
  return found;
}

std::string read_text(const fs::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace ddprun
