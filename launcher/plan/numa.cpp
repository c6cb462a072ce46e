#include "launcher/plan/numa.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace ddprun {

namespace {

// Linux' own limit (CONFIG_NR_CPUS); a list beyond it is not one.
constexpr int kCpuMax = 8191;

std::vector<int> nodes_of(const NumaTopology& topology) {
  std::set<int> nodes;
  for (const auto& cpu : topology.cpus) nodes.insert(cpu.node);
  return {nodes.begin(), nodes.end()};
}

/// The NUMA node of each worker.
std::vector<int> place(const NumaTopology& topology, int workers) {
  const auto nodes = nodes_of(topology);
  const auto& gpus = topology.gpu_nodes;
  const auto has_cpus = [&](int node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  const auto count = static_cast<std::size_t>(workers);
  if (gpus.size() >= count && std::all_of(gpus.begin(), gpus.begin() + workers, has_cpus)) {
    return {gpus.begin(), gpus.begin() + workers};
  }
  std::vector<int> placed;
  for (std::size_t i = 0; i < count; ++i) placed.push_back(nodes[i * nodes.size() / count]);
  return placed;
}

template <typename Predicate>
std::vector<int> cpus_where(const NumaTopology& topology, Predicate matches) {
  std::vector<int> cpus;
  for (const auto& cpu : topology.cpus) {
    if (matches(cpu)) cpus.push_back(cpu.cpu);
  }
  return cpus;
}

/// CPUs of `node` by physical core or by cache.
std::vector<std::vector<int>> groups_of(const NumaTopology& topology, int node,
                                        int CpuFacts::*group) {
  std::map<int, std::vector<int>> groups;
  for (const auto& cpu : topology.cpus) {
    if (cpu.node == node) groups[cpu.*group].push_back(cpu.cpu);
  }
  std::vector<std::vector<int>> result;
  result.reserve(groups.size());
  for (auto& [first_cpu, cpus] : groups) result.push_back(std::move(cpus));
  return result;
}

int socket_of(const NumaTopology& topology, int node) {
  const auto found = std::find_if(topology.cpus.begin(), topology.cpus.end(),
                                  [node](const CpuFacts& cpu) { return cpu.node == node; });
  return found->socket;
}

/// The `index`-th of `sharers` shares of whole cores; the first shares are larger by one core where
/// they do not divide evenly.
std::vector<int> share_of(const std::vector<std::vector<int>>& cores, std::size_t index,
                          std::size_t sharers) {
  const auto least = cores.size() / sharers;
  const auto larger = cores.size() % sharers;
  const auto begin = index * least + std::min(index, larger);
  const auto end = begin + least + (index < larger ? 1 : 0);
  std::vector<int> cpus;
  for (auto i = begin; i < end; ++i) cpus.insert(cpus.end(), cores[i].begin(), cores[i].end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

}  // namespace

std::variant<std::vector<std::vector<int>>, std::string> bind_workers(const NumaTopology& topology,
                                                                      NumaBinding binding,
                                                                      int workers) {
  std::vector<std::vector<int>> bound(static_cast<std::size_t>(workers));
  if (binding == NumaBinding::none) return bound;
  if (topology.cpus.empty()) return "the topology of the CPUs cannot be read from /sys";
  const auto nodes = place(topology, workers);
  std::map<int, std::size_t> seen;  // workers of each node so far
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const int node = nodes[i];
    const auto index = seen[node]++;
    const auto sharers = static_cast<std::size_t>(std::count(nodes.begin(), nodes.end(), node));
    if (binding == NumaBinding::node) {
      bound[i] = cpus_where(topology, [&](const CpuFacts& cpu) { return cpu.node == node; });
    } else if (binding == NumaBinding::socket) {
      const int socket = socket_of(topology, node);
      bound[i] = cpus_where(topology, [&](const CpuFacts& cpu) { return cpu.socket == socket; });
    } else if (binding == NumaBinding::core_complex) {
      const auto groups = groups_of(topology, node, &CpuFacts::last_cache);
      bound[i] = groups[index % groups.size()];
    } else {
      const auto cores = groups_of(topology, node, &CpuFacts::core);
      if (cores.size() < sharers) {
        return "NUMA node " + std::to_string(node) + " has " + std::to_string(cores.size()) +
               " cores for " + std::to_string(sharers) + " workers";
      }
      bound[i] = share_of(cores, index, sharers);
    }
  }
  return bound;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.empty()) return cpus;
  for (const auto& part : split(text, ',')) {
    const auto ends = split(part, '-');
    int range[2] = {0, 0};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& number = i == 0 ? ends.front() : ends.back();
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), range[i]);
      if (error != std::errc() || end != number.data() + number.size() || range[i] < 0 ||
          range[i] > kCpuMax || ends.size() > 2) {
        return {};
      }
    }
    for (int cpu = range[0]; cpu <= range[1]; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    parts.push_back(std::to_string(cpus[i]) + (last > i ? "-" + std::to_string(cpus[last]) : ""));
    i = last + 1;
  }
  return join(parts, ",");
}

}  // namespace ddprun
