#include "launcher/plan/visible_gpus.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace ddprun {

namespace {

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Parses like C's strtoul: a sign, digits, and arbitrary text. Returns -1 if it is not an index.
int index_in(std::string_view entry) {
  const bool is_negative = !entry.empty() && entry.front() == '-';
  if (!entry.empty() && (entry.front() == '+' || is_negative)) entry.remove_prefix(1);
  int index = -1;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (error != std::errc() || index < 0) return -1;
  return is_negative && index > 0 ? -1 : index;
}

/// Returns true if the prefix of a UUID identifies one GPU, or if UUIDs are unknown.
bool is_unique_start(std::string_view start, const std::vector<GpuFacts>& gpus) {
  const auto is_unknown = [](const GpuFacts& gpu) { return gpu.uuid.empty(); };
  if (gpus.empty() || std::any_of(gpus.begin(), gpus.end(), is_unknown)) return true;
  return std::count_if(gpus.begin(), gpus.end(),
                       [start](const GpuFacts& gpu) { return gpu.uuid.rfind(start, 0) == 0; }) == 1;
}

bool is_repeated(const std::vector<std::string>& entries, const std::string& entry) {
  return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

}  // namespace

std::vector<std::string> visible_gpus(const std::optional<std::string>& cuda_visible_devices,
                                      int installed, const std::vector<std::string>& divided,
                                      const std::function<std::vector<GpuFacts>()>& read_gpus) {
  std::vector<std::string> visible;
  if (!cuda_visible_devices) {
    if (!divided.empty()) return divided;
    for (int gpu = 0; gpu < installed; ++gpu) visible.push_back(std::to_string(gpu));
    return visible;
  }
  if (installed == 0) return visible;
  const auto first = without_spaces(*cuda_visible_devices);
  const bool is_by_uuid = first.rfind("GPU-", 0) == 0;
  const std::string_view prefix = is_by_uuid ? "GPU-" : first.rfind("MIG-", 0) == 0 ? "MIG-" : "";
  const auto gpus = is_by_uuid ? read_gpus() : std::vector<GpuFacts>();
  for (const auto& part : split(*cuda_visible_devices, ',')) {
    std::string entry(without_spaces(part));
    if (prefix.empty()) {
      const int index = index_in(entry);
      if (index < 0 || index >= installed) break;
      entry = std::to_string(index);
    } else if (entry.rfind(prefix, 0) != 0 || (is_by_uuid && !is_unique_start(entry, gpus))) {
      break;
    }
    if (is_repeated(visible, entry)) return {};
    visible.push_back(std::move(entry));
  }
  return visible;
}

std::vector<int> nodes_of_gpus(const std::vector<std::string>& entries,
                               const std::vector<GpuFacts>& gpus) {
  std::vector<int> nodes;
  for (const auto& entry : entries) {
    const bool is_by_uuid = entry.rfind("GPU-", 0) == 0;
    const bool is_mig = entry.rfind("MIG-", 0) == 0;
    const auto index = static_cast<std::size_t>(index_in(entry));
    const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const GpuFacts& gpu) {
      if (is_by_uuid) return gpu.uuid.rfind(entry, 0) == 0;
      if (is_mig) return !gpu.uuid.empty() && entry.rfind("MIG-" + gpu.uuid + "/", 0) == 0;
      return static_cast<std::size_t>(&gpu - gpus.data()) == index;
    });
    nodes.push_back(found == gpus.end() ? -1 : found->node);
  }
  return nodes;
}

}  // namespace ddprun
