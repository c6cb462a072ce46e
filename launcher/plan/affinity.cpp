#include "launcher/plan/affinity.hpp"

#include "launcher/cli/cpu_list.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace ddprun {

namespace {

// Limits the length of the line; --dry_run shows all.
constexpr std::size_t kDescribedMax = 32;

using Cores = std::vector<std::vector<int>>;

/// Returns the physical cores with their CPUs, ordered so that neighbours share as many caches as
/// possible.
Cores cores_where(const Topology& topology, const std::set<int>& nodes) {
  std::map<std::array<int, 3>, std::vector<int>> cores;
  for (const auto& cpu : topology.cpus) {
    if (nodes.contains(cpu.node)) cores[{cpu.node, cpu.last_cache, cpu.core}].push_back(cpu.cpu);
  }
  Cores ordered;
  ordered.reserve(cores.size());
  for (auto& [place, cpus] : cores) ordered.push_back(std::move(cpus));
  return ordered;
}

std::set<int> nodes_of(const Topology& topology) {
  std::set<int> nodes;
  for (const auto& cpu : topology.cpus) nodes.insert(cpu.node);
  return nodes;
}

/// Returns the NUMA nodes of the workers' GPUs if each is known and has CPUs that this process may
/// use.
std::optional<std::vector<int>> gpu_nodes(const Topology& topology, std::size_t workers) {
  const auto nodes = nodes_of(topology);
  const auto& gpus = topology.gpu_nodes;
  if (gpus.size() < workers) return std::nullopt;
  std::vector<int> first(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(workers));
  const auto has_cpus = [&](int node) { return nodes.contains(node); };
  if (!std::all_of(first.begin(), first.end(), has_cpus)) return std::nullopt;
  return first;
}

/// Returns a node for each worker, in proportion to the nodes' numbers of cores: the workers are at
/// equal distances in the sequence of all cores.
std::vector<int> spread(const Topology& topology, std::size_t workers) {
  std::vector<int> node_of_core;
  for (const int node : nodes_of(topology)) {
    node_of_core.insert(node_of_core.end(), cores_where(topology, {node}).size(), node);
  }
  std::vector<int> placed;
  for (std::size_t i = 0; i < workers; ++i) {
    placed.push_back(node_of_core[i * node_of_core.size() / workers]);
  }
  return placed;
}

/// Returns the node of each worker.
std::vector<int> place(const Topology& topology, std::size_t workers) {
  if (auto nodes = gpu_nodes(topology, workers)) return *nodes;
  return spread(topology, workers);
}

template <typename Predicate>
std::vector<int> cpus_where(const Topology& topology, Predicate matches) {
  std::vector<int> cpus;
  for (const auto& cpu : topology.cpus) {
    if (matches(cpu)) cpus.push_back(cpu.cpu);
  }
  return cpus;
}

int socket_of(const Topology& topology, int node) {
  const auto found = std::find_if(topology.cpus.begin(), topology.cpus.end(),
                                  [node](const CpuFacts& cpu) { return cpu.node == node; });
  return found->socket;
}

/// Returns the CPUs of the node's last-level cache with index `turn` modulo the number of caches.
std::vector<int> cache_of(const Topology& topology, int node, std::size_t turn) {
  std::map<int, std::vector<int>> caches;
  for (const auto& cpu : topology.cpus) {
    if (cpu.node == node) caches[cpu.last_cache].push_back(cpu.cpu);
  }
  auto cache = caches.begin();
  std::advance(cache, turn % caches.size());
  return cache->second;
}

/// Implements the bindings to a whole node, socket or cache.
CpuMap bind_to_parts(const Topology& topology, Affinity::Kind kind, std::size_t workers) {
  CpuMap map;
  std::map<int, std::size_t> seen;  // workers per node so far
  for (const int node : place(topology, workers)) {
    if (kind == Affinity::Kind::node) {
      map.push_back(cpus_where(topology, [&](const CpuFacts& cpu) { return cpu.node == node; }));
    } else if (kind == Affinity::Kind::socket) {
      const int socket = socket_of(topology, node);
      map.push_back(
          cpus_where(topology, [&](const CpuFacts& cpu) { return cpu.socket == socket; }));
    } else {
      map.push_back(cache_of(topology, node, seen[node]++));
    }
  }
  return map;
}

/// Returns share `index` of `sharers` shares of whole cores; if the division has a remainder, the
/// first shares are larger by one core. With fewer cores than sharers, several sharers get the same
/// core.
std::vector<int> share_of(const Cores& cores, std::size_t index, std::size_t sharers) {
  if (cores.size() < sharers) return cores[index * cores.size() / sharers];
  const auto least = cores.size() / sharers;
  const auto larger = cores.size() % sharers;
  const auto begin = index * least + std::min(index, larger);
  const auto end = begin + least + (index < larger ? 1 : 0);
  std::vector<int> cpus;
  for (auto i = begin; i < end; ++i) cpus.insert(cpus.end(), cores[i].begin(), cores[i].end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

/// Returns the nodes whose cores are divided between the workers of each placed node: with GPUs,
/// that node only; otherwise also the following nodes without workers, so that none is idle.
std::map<int, std::set<int>> divided_nodes(const Topology& topology, const std::set<int>& placed,
                                           bool is_by_gpu) {
  std::map<int, std::set<int>> divided;
  for (const int node : nodes_of(topology)) {
    if (placed.contains(node)) {
      divided[node] = {node};
    } else if (!is_by_gpu) {
      divided.rbegin()->second.insert(node);
    }
  }
  return divided;
}

std::variant<CpuMap, std::string> divide_cores(const Topology& topology, Affinity::Kind kind,
                                               std::size_t workers) {
  const auto nodes = place(topology, workers);
  const bool is_by_gpu = gpu_nodes(topology, workers).has_value();
  CpuMap map(workers);
  for (const auto& [home, divided] :
       divided_nodes(topology, {nodes.begin(), nodes.end()}, is_by_gpu)) {
    const auto cores = cores_where(topology, divided);
    const auto sharers = static_cast<std::size_t>(std::count(nodes.begin(), nodes.end(), home));
    if (kind == Affinity::Kind::exclusive && cores.size() < sharers) {
      return "NUMA node " + std::to_string(home) + " has " + std::to_string(cores.size()) +
             " cores for " + std::to_string(sharers) + " workers";
    }
    std::size_t index = 0;
    for (std::size_t i = 0; i < workers; ++i) {
      if (nodes[i] == home) map[i] = share_of(cores, index++, sharers);
    }
  }
  return map;
}

std::variant<CpuMap, std::string> check_lists(const Topology& topology, const CpuMap& lists,
                                              std::size_t workers) {
  if (lists.size() != workers) {
    return (lists.size() == 1 ? "there is 1 list"
                              : "there are " + std::to_string(lists.size()) + " lists") +
           " of CPUs for " + std::to_string(workers) + (workers == 1 ? " worker" : " workers");
  }
  const auto allowed = cpus_where(topology, [](const CpuFacts&) { return true; });
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (const int cpu : lists[i]) {
      if (std::binary_search(allowed.begin(), allowed.end(), cpu)) continue;
      return "CPU " + std::to_string(cpu) + " of local rank " + std::to_string(i) +
             " is not among the CPUs that ddprun may use (" + format_cpu_list(allowed) + ")";
    }
  }
  return lists;
}

}  // namespace

std::variant<CpuMap, std::string> bind_workers(const Topology& topology, const Affinity& affinity,
                                               int workers) {
  const auto count = static_cast<std::size_t>(workers);
  if (affinity.kind == Affinity::Kind::none || affinity.kind == Affinity::Kind::automatic)
    return CpuMap(count);
  if (topology.cpus.empty()) return "the CPUs that ddprun may run on cannot be read";
  if (affinity.kind == Affinity::Kind::list) return check_lists(topology, affinity.lists, count);
  if (affinity.kind == Affinity::Kind::cores || affinity.kind == Affinity::Kind::exclusive) {
    return divide_cores(topology, affinity.kind, count);
  }
  return bind_to_parts(topology, affinity.kind, count);
}

Affinity::Kind default_affinity(const Topology& topology, int workers) {
  const auto count = static_cast<std::size_t>(workers);
  const auto placed = gpu_nodes(topology, count);
  if (!placed || nodes_of(topology).size() < 2) return Affinity::Kind::none;
  for (const int node : *placed) {
    const auto cpus = cpus_where(topology, [&](const CpuFacts& cpu) { return cpu.node == node; });
    const auto sharers = static_cast<std::size_t>(std::count(placed->begin(), placed->end(), node));
    if (2 * cpus.size() * count < topology.cpus.size() * sharers) return Affinity::Kind::none;
  }
  return Affinity::Kind::node;
}

std::vector<int> cores_of_each(const Topology& topology, const CpuMap& map) {
  std::map<int, int> core_of;
  for (const auto& cpu : topology.cpus) core_of[cpu.cpu] = cpu.core;
  std::vector<std::set<int>> cores(map.size());
  std::map<int, int> owners;
  for (std::size_t i = 0; i < map.size(); ++i) {
    for (const int cpu : map[i]) cores[i].insert(core_of[cpu]);
    for (const int core : cores[i]) ++owners[core];
  }
  std::vector<int> counts;
  for (const auto& own : cores) {
    double sum = 0;
    for (const int core : own) sum += 1.0 / owners[core];
    // Three times a third is slightly less than one.
    counts.push_back(std::max(static_cast<int>(sum + 1e-6), 1));
  }
  return counts;
}

int common_node(const Topology& topology, const std::vector<int>& cpus) {
  std::set<int> nodes;
  for (const auto& cpu : topology.cpus) {
    if (std::find(cpus.begin(), cpus.end(), cpu.cpu) != cpus.end()) nodes.insert(cpu.node);
  }
  return nodes.size() == 1 ? *nodes.begin() : -1;
}

std::string describe_map(const Topology& topology, const CpuMap& map) {
  const bool has_several_nodes = nodes_of(topology).size() > 1;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < map.size() && parts.size() < kDescribedMax;) {
    auto next = i + 1;
    while (next < map.size() && map[next] == map[i]) ++next;
    const int node = common_node(topology, map[i]);
    auto part = next > i + 1 ? "ranks " + std::to_string(i) + "-" + std::to_string(next - 1)
                             : "rank " + std::to_string(i);
    part += ": " + format_cpu_list(map[i]);
    // Added once for neighbours on the same node.
    const bool is_last_of_node = next == map.size() || common_node(topology, map[next]) != node ||
                                 parts.size() + 1 == kDescribedMax;
    if (has_several_nodes && node >= 0 && is_last_of_node) {
      part += " (NUMA node " + std::to_string(node) + ")";
    }
    parts.push_back(std::move(part));
    i = next;
    if (parts.size() == kDescribedMax && i < map.size()) {
      parts.push_back("and " + std::to_string(map.size() - i) + " more");
    }
  }
  return join(parts, "; ");
}

}  // namespace ddprun
