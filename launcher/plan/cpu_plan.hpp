// Plans CPUs, memory nodes and numbers of threads of all workers, with notes for the user. Pure.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/affinity.hpp"
#include "launcher/plan/host_facts.hpp"

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

struct CpuPlan {
  CpuMap cpus;                     ///< CPUs by local rank; empty: any
  std::vector<int> memory_nodes;   ///< NUMA node of each worker's CPUs; -1: several, or not bound
  std::vector<int> thread_shares;  ///< recommended numbers of threads, by local rank
  std::vector<std::string> notes;

  bool operator==(const CpuPlan&) const = default;
};

/// Returns the number of CPUs that this process may use; 0: unknown. It is the size of the affinity
/// mask or the cgroup's quota if lower, rounded down since a throttled worker delays all others.
int usable_cpus(const HostFacts& facts);

/// Returns a plan or a problem that begins with its option's name. `gpus`: the visible GPUs.
std::variant<CpuPlan, std::string> plan_cpus(const LaunchOptions& options, const HostFacts& facts,
                                             const std::vector<std::string>& gpus, int workers);

}  // namespace ddprun
