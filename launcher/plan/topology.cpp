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

/// Returns the text after `name` in a file of lines "name \t text"; empty if the line is missing.
std::string value_in(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const auto begin = line.find_first_not_of(" \t", name.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// Returns the UUID, which contains question marks for a GPU that has not been used since boot.
std::string uuid_in(const fs::path& information) {
  const auto uuid = value_in(information, "GPU UUID:");
  return uuid.rfind("GPU-", 0) == 0 && uuid.find('?') == std::string::npos ? uuid : "";
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

int count_device_files(const fs::path& root) {
  constexpr std::string_view kStart = "nvidia";
  const auto files = entries_of(root / "dev", std::string(kStart));
  return static_cast<int>(std::count_if(files.begin(), files.end(), [&](const fs::path& file) {
    const auto name = file.filename().string();
    return name.size() > kStart.size() &&
           name.find_first_not_of("0123456789", kStart.size()) == std::string::npos;
  }));
}

/// A GPU in the driver's folder.
struct ListedGpu {
  GpuFacts facts;
  int minor = -1;  ///< number of its device file; -1: unknown
};

/// Returns the GPUs in the driver's folder that have a device file; all if /dev has no such files.
std::vector<ListedGpu> listed_gpus(const fs::path& root) {
  const bool has_files = count_device_files(root) > 0;
  std::vector<ListedGpu> gpus;
  // The folders' names are bus addresses.
  for (const auto& folder : entries_of(root / "proc/driver/nvidia/gpus", "")) {
    const int minor = number_in(value_in(folder / "information", "Device Minor:"), -1);
    const auto file = root / "dev" / ("nvidia" + std::to_string(minor));
    if (has_files && minor >= 0 && !is_there(file)) continue;
    const auto device = root / "sys/bus/pci/devices" / folder.filename();
    gpus.push_back({.facts = {.uuid = uuid_in(folder / "information"),
                              .node = number_in(first_line(device / "numa_node"), -1)},
                    .minor = minor});
  }
  return gpus;
}

/// Returns true if the device file of this capability exists, or the driver names none.
bool has_capability(const fs::path& root, const fs::path& folder) {
  const auto minor = value_in(folder / "access", "DeviceFileMinor:");
  return minor.empty() || is_there(root / "dev/nvidia-caps" / ("nvidia-cap" + minor));
}

/// Adds the MIG devices of a GPU; returns false if the GPU is not divided.
bool add_mig_devices(const fs::path& root, const ListedGpu& gpu, std::vector<std::string>& names) {
  const auto capabilities = root / "proc/driver/nvidia/capabilities";
  const auto instances =
      entries_of(capabilities / ("gpu" + std::to_string(gpu.minor)) / "mig", "gi");
  for (const auto& instance : instances) {
    if (!has_capability(root, instance)) continue;
    for (const auto& part : entries_of(instance, "ci")) {
      if (!has_capability(root, part)) continue;
      names.push_back("MIG-" + gpu.facts.uuid + "/" + instance.filename().string().substr(2) + "/" +
                      part.filename().string().substr(2));
    }
  }
  return !instances.empty();
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
  for (auto& gpu : listed_gpus(root)) gpus.push_back(std::move(gpu.facts));
  return gpus;
}

int count_gpus(const fs::path& root) {
  const int files = count_device_files(root);
  const auto folders = static_cast<int>(entries_of(root / "proc/driver/nvidia/gpus", "").size());
  return files == 0 || folders == 0 ? std::max(files, folders) : std::min(files, folders);
}

std::vector<std::string> read_divided_gpus(const fs::path& root) {
  if (entries_of(root / "proc/driver/nvidia/capabilities", "gpu").empty()) return {};
  bool is_any_divided = false;
  std::vector<std::string> names;
  for (const auto& gpu : listed_gpus(root)) {
    if (gpu.facts.uuid.empty()) return {};
    if (add_mig_devices(root, gpu, names)) {
      is_any_divided = true;
    } else {
      names.push_back(gpu.facts.uuid);
    }
  }
  return is_any_divided ? names : std::vector<std::string>();
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
