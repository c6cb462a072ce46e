#include "launcher/plan/host_facts.hpp"

#include "rendezvous/base/text.hpp"
#include <ddprun/error.hpp>

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <random>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

namespace {

namespace fs = std::filesystem;

// Linux' own limit (CONFIG_NR_CPUS).
constexpr int kCpusMax = 8192;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int number_in(const fs::path& path, int if_absent) {
  const auto line = first_line(path);
  int value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  return error == std::errc() ? value : if_absent;
}

std::vector<int> allowed_cpus() {
  cpu_set_t* set = CPU_ALLOC(kCpusMax);
  const auto bytes = CPU_ALLOC_SIZE(kCpusMax);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, bytes, set) == 0) {
    for (int cpu = 0; cpu < kCpusMax; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return cpus;
}

std::vector<fs::path> entries_of(const fs::path& folder, const std::string& start) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind(start, 0) == 0) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

int node_of(const fs::path& cpu_folder) {
  for (const auto& link : entries_of(cpu_folder, "node")) {
    const auto digits = link.filename().string().substr(4);
    int node = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), node);
    if (error == std::errc()) return node;
  }
  return 0;
}

/// The lowest CPU that shares the cache of the highest level; `cpu` itself if that is not known.
int last_cache_of(const fs::path& cpu_folder, int cpu) {
  int highest = 0;
  int lowest_cpu = cpu;
  for (const auto& index : entries_of(cpu_folder / "cache", "index")) {
    const int level = number_in(index / "level", 0);
    const auto shared = parse_cpu_list(first_line(index / "shared_cpu_list"));
    if (level <= highest || shared.empty()) continue;
    highest = level;
    lowest_cpu = shared.front();
  }
  return lowest_cpu;
}

CpuFacts facts_of(int cpu) {
  const auto folder = fs::path("/sys/devices/system/cpu") / ("cpu" + std::to_string(cpu));
  const auto siblings = parse_cpu_list(first_line(folder / "topology/thread_siblings_list"));
  return {.cpu = cpu,
          .node = node_of(folder),
          .socket = number_in(folder / "topology/physical_package_id", 0),
          .core = siblings.empty() ? cpu : siblings.front(),
          .last_cache = last_cache_of(folder, cpu)};
}

/// Bus addresses of the installed GPUs, in the driver's order.
std::vector<std::string> gpu_addresses() {
  std::vector<std::string> addresses;
  for (const auto& folder : entries_of("/proc/driver/nvidia/gpus", "")) {
    addresses.push_back(folder.filename().string());
  }
  return addresses;
}

/// Some containers have the device files but not the driver's folder in /proc.
int gpu_device_files() {
  int count = 0;
  for (const auto& file : entries_of("/dev", "nvidia")) {
    const auto digits = file.filename().string().substr(6);
    count += !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char letter) {
      return letter >= '0' && letter <= '9';
    });
  }
  return count;
}

NumaTopology read_topology(const std::vector<int>& cpus, const std::vector<std::string>& gpus) {
  NumaTopology topology;
  for (const int cpu : cpus) topology.cpus.push_back(facts_of(cpu));
  for (const auto& gpu : gpus) {
    topology.gpu_nodes.push_back(
        number_in(fs::path("/sys/bus/pci/devices") / gpu / "numa_node", -1));
  }
  return topology;
}

FileKind look_at(const fs::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return FileKind::missing;
  if (S_ISDIR(status.st_mode)) return FileKind::folder;
  return ::access(path.c_str(), X_OK) == 0 ? FileKind::executable : FileKind::not_executable;
}

std::uint64_t open_files_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::string random_text(std::random_device& source, std::size_t length, std::string_view letters) {
  std::uniform_int_distribution<std::size_t> any(0, letters.size() - 1);
  std::string text;
  while (text.size() < length) text += letters[any(source)];
  return text;
}

std::string random_uuid(std::random_device& source) {
  constexpr std::string_view kHex = "0123456789abcdef";
  auto uuid = random_text(source, 36, kHex);
  for (const std::size_t dash : {8, 13, 18, 23}) uuid[dash] = '-';
  uuid[14] = '4';                                     // version 4: random
  uuid[19] = random_text(source, 1, "89ab").front();  // the variant of RFC 4122
  return uuid;
}

fs::path current_folder() {
  std::error_code error;
  auto folder = fs::current_path(error);
  if (error) {
    throw_system_error("the current folder cannot be told (has it been removed?)", error.value());
  }
  return folder;
}

/// From the name that was given to execve: a shell that found ddprun in PATH gives the whole path.
fs::path called_in(const fs::path& working_directory) {
  const auto* name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return name == nullptr ? fs::path() : (working_directory / name).parent_path();
}

}  // namespace

HostFacts gather_host_facts(const EnvironmentLookup& environment) {
  std::error_code error;
  std::random_device source;
  HostFacts facts;
  const auto gpus = gpu_addresses();
  facts.cpus = allowed_cpus();
  facts.installed_gpus = std::max(static_cast<int>(gpus.size()), gpu_device_files());
  facts.open_files_max = open_files_max();
  facts.working_directory = current_folder();
  facts.program_directory = fs::read_symlink("/proc/self/exe", error).parent_path();
  facts.called_in = called_in(facts.working_directory);
  facts.temporary_directory = environment("TMPDIR").value_or("/tmp");
  facts.random_name = random_text(source, 8, "abcdefghijklmnopqrstuvwxyz0123456789");
  facts.random_run_id = random_uuid(source);
  facts.environment = environment;
  facts.look_at = look_at;
  facts.read_topology = [cpus = facts.cpus, gpus] { return read_topology(cpus, gpus); };
  return facts;
}

std::vector<std::string> visible_gpus(const std::optional<std::string>& cuda_visible_devices,
                                      int installed) {
  std::vector<std::string> gpus;
  if (installed == 0) return gpus;
  if (!cuda_visible_devices) {
    for (int gpu = 0; gpu < installed; ++gpu) gpus.push_back(std::to_string(gpu));
    return gpus;
  }
  for (auto entry : split(*cuda_visible_devices, ',')) {
    entry.erase(0, std::min(entry.find_first_not_of(' '), entry.size()));
    entry.erase(entry.find_last_not_of(' ') + 1);
    int index = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    const bool is_index = error == std::errc() && end == entry.data() + entry.size();
    const bool is_uuid = entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0;
    if (!is_uuid && !(is_index && index >= 0 && index < installed)) break;
    gpus.push_back(entry);
  }
  return gpus;
}

}  // namespace ddprun
