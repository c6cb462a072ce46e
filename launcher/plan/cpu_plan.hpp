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
  CpuMap cpus;                     ///< by local rank; empty: any
  std::vector<int> memory_nodes;   ///< NUMA node of each worker's CPUs; -1: several, or not bound
  std::vector<int> thread_shares;  ///< recommended numbers of threads, by local rank
  std::vector<std::string> notes;

  bool operator==(const CpuPlan&) const = default;
};

/// Returns the number of CPUs that this process may use: those of its affinity mask, or fewer if
/// its cgroup has a quota, rounded down because a throttled worker delays all others. 0: unknown.
int usable_cpus(const HostFacts& facts);

/// `gpus`: the visible ones. A problem begins with the name of its option.
std::variant<CpuPlan, std::string> plan_cpus(const LaunchOptions& options, const HostFacts& facts,
                                             const std::vector<std::string>& gpus, int workers);

}  // namespace ddprun
