#include "launcher/plan/cpu_plan.hpp"

#include "launcher/plan/visible_gpus.hpp"

#include <algorithm>
#include <set>

namespace ddprun {

namespace {

int at_least_one(double number) {
  return std::max(static_cast<int>(number), 1);
}

/// Returns true if each worker uses the GPU of its local rank. A number of workers does not imply
/// that they use GPUs.
bool assigns_gpus(const LaunchOptions& options, const std::vector<std::string>& gpus) {
  const auto counted = options.nproc_per_node.kind;
  const bool counts_gpus =
      counted == WorkerCount::Kind::gpu || counted == WorkerCount::Kind::automatic;
  return !gpus.empty() && (counts_gpus || options.virtual_local_rank);
}

bool is_any_known(const std::vector<int>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](int node) { return node >= 0; });
}

std::string note_of_shared_cores(const CpuMap& map, Affinity::Kind kind) {
  const std::set<std::vector<int>> different(map.begin(), map.end());
  if (kind != Affinity::Kind::cores || different.size() == map.size()) return "";
  return "there are more workers (" + std::to_string(map.size()) +
         ") than cores for them: some share a core";
}

}  // namespace

int usable_cpus(const HostFacts& facts) {
  const int allowed = static_cast<int>(facts.cpus.size());
  return facts.cpu_quota > 0 ? std::min(allowed, at_least_one(facts.cpu_quota)) : allowed;
}

std::variant<CpuPlan, std::string> plan_cpus(const LaunchOptions& options, const HostFacts& facts,
                                             const std::vector<std::string>& gpus, int workers) {
  const auto count = static_cast<std::size_t>(workers);
  CpuPlan plan{.cpus = CpuMap(count),
               .memory_nodes = std::vector<int>(count, -1),
               .thread_shares = std::vector<int>(
                   count, at_least_one(usable_cpus(facts) / std::max(workers, 1)))};
  const bool is_torchruns = options.numa_binding.kind != Affinity::Kind::none;
  const std::string option = is_torchruns ? "--numa_binding: " : "--affinity: ";
  auto affinity = is_torchruns ? options.numa_binding : options.affinity;
  const bool is_default = affinity.kind == Affinity::Kind::automatic;
  const auto kind = options.affinity.kind;
  if (is_torchruns && kind != Affinity::Kind::none && kind != Affinity::Kind::automatic) {
    return "--affinity and --numa_binding, its spelling in torchrun, exclude each other";
  }
  if (affinity.kind == Affinity::Kind::none || workers == 0) return plan;
  if (is_default && !assigns_gpus(options, gpus)) return plan;

  Topology topology{.cpus = {}, .gpu_nodes = nodes_of_gpus(gpus, facts.read_gpus())};
  // Reading the CPUs takes longer.
  if (is_default && !is_any_known(topology.gpu_nodes)) return plan;
  topology.cpus = facts.read_cpus();
  if (is_default) affinity.kind = default_affinity(topology, workers);
  if (affinity.kind == Affinity::Kind::none) return plan;
  auto bound = bind_workers(topology, affinity, workers);
  if (const auto* problem = std::get_if<std::string>(&bound)) return option + *problem;
  plan.cpus = std::get<CpuMap>(std::move(bound));
  plan.thread_shares = cores_of_each(topology, plan.cpus);
  for (std::size_t i = 0; i < count; ++i) {
    plan.memory_nodes[i] = common_node(topology, plan.cpus[i]);
    if (facts.cpu_quota <= 0) continue;
    plan.thread_shares[i] =
        std::min(plan.thread_shares[i], at_least_one(facts.cpu_quota / workers));
  }
  plan.notes.push_back("CPUs: " + describe_map(topology, plan.cpus) +
                       (is_default ? "; --affinity=none changes that" : ""));
  const auto shared = note_of_shared_cores(plan.cpus, affinity.kind);
  if (!shared.empty()) plan.notes.push_back(option + shared);
  return plan;
}

}  // namespace ddprun
