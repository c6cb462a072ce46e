#include "launcher/plan/topology.hpp"

#include "launcher/cli/cpu_list.hpp"
#include "launcher/plan/cgroup_folder.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int number_in(const std::string& text, int otherwise) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : otherwise;
}

/// Returns the entries whose names begin with `start`, in ascending order.
std::vector<fs::path> entries_of(const fs::path& folder, const std::string& start) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind(start, 0) == 0) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

int node_of_cpu(const fs::path& cpu_folder) {
  for (const auto& link : entries_of(cpu_folder, "node")) {
    const int node = number_in(link.filename().string().substr(4), -1);
    if (node >= 0) return node;
  }
  return 0;
}

/// Returns the lowest CPU that shares the highest-level cache; `cpu` itself if unknown.
int last_cache_of(const fs::path& cpu_folder, int cpu) {
  int highest = 0;
  int lowest_cpu = cpu;
  for (const auto& index : entries_of(cpu_folder / "cache", "index")) {
    const int level = number_in(first_line(index / "level"), 0);
    const auto shared = parse_cpu_list(first_line(index / "shared_cpu_list"));
    if (level <= highest || shared.empty()) continue;
    highest = level;
    lowest_cpu = shared.front();
  }
  return lowest_cpu;
}

CpuFacts facts_of(const fs::path& root, int cpu) {
  const auto folder = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu));
  const auto siblings = parse_cpu_list(first_line(folder / "topology/thread_siblings_list"));
  return {.cpu = cpu,
          .node = node_of_cpu(folder),
          .socket = number_in(first_line(folder / "topology/physical_package_id"), 0),
          .core = siblings.empty() ? cpu : siblings.front(),
          .last_cache = last_cache_of(folder, cpu)};
}

/// Parses the line "GPU UUID: GPU-..."; it contains question marks for a GPU that has not been used
/// since boot.
std::string uuid_in(const fs::path& information) {
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("GPU UUID:", 0) != 0) continue;
    const auto begin = line.find("GPU-");
    if (begin == std::string::npos || line.find('?') != std::string::npos) return "";
    return line.substr(begin);
  }
  return "";
}

/// Returns the limit of this cgroup, without its parents', in CPUs; 0: none.
double limit_in(const fs::path& cgroup) {
  double quota = 0, period = 0;
  std::istringstream version_2(first_line(cgroup / "cpu.max"));  // "max 100000" without a limit
  if (!(version_2 >> quota >> period)) {
    quota = number_in(first_line(cgroup / "cpu.cfs_quota_us"), -1);  // -1 without a limit
    period = number_in(first_line(cgroup / "cpu.cfs_period_us"), 0);
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

std::vector<CpuFacts> read_cpus(const fs::path& root, const std::vector<int>& cpus) {
  std::vector<CpuFacts> facts;
  facts.reserve(cpus.size());
  for (const int cpu : cpus) facts.push_back(facts_of(root, cpu));
  return facts;
}

std::vector<GpuFacts> read_gpus(const fs::path& root) {
  std::vector<GpuFacts> gpus;
  // The folders' names are bus addresses.
  for (const auto& folder : entries_of(root / "proc/driver/nvidia/gpus", "")) {
    const auto device = root / "sys/bus/pci/devices" / folder.filename();
    gpus.push_back({.uuid = uuid_in(folder / "information"),
                    .node = number_in(first_line(device / "numa_node"), -1)});
  }
  return gpus;
}

double read_cpu_quota(const fs::path& root) {
  double least = 0;
  for (const auto& cgroup : own_cgroups(root, "cpu")) {
    for (auto folder = cgroup.folder;; folder = folder.parent_path()) {
      const double limit = limit_in(folder);
      if (limit > 0 && (least == 0 || limit < least)) least = limit;
      if (folder == cgroup.mount || !folder.has_relative_path()) break;
    }
  }
  return least;
}

}  // namespace ddprun
