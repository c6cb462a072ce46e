// The CPUs of the workers as a whole: where each runs, where its memory lies, how many threads it
// should use, and what the operator is told of it. Pure.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/affinity.hpp"
#include "launcher/plan/host_facts.hpp"

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

struct CpuPlan {
  CpuMap cpus;                     ///< by local rank; no CPUs: any
  std::vector<int> memory_nodes;   ///< NUMA node of each worker's CPUs; -1: several, or not bound
  std::vector<int> thread_shares;  ///< by local rank: how many threads each may well use
  std::vector<std::string> notes;

  bool operator==(const CpuPlan&) const = default;
};

/// How many CPUs this process may keep busy: those that it may run on, or fewer if its cgroup has a
/// quota. Workers wait for each other, so a quota that throttles one holds up all: a fraction of a
/// CPU does not count. 0: not known.
int usable_cpus(const HostFacts& facts);

/// `gpus` are the visible ones. A problem names its option.
std::variant<CpuPlan, std::string> plan_cpus(const LaunchOptions& options, const HostFacts& facts,
                                             const std::vector<std::string>& gpus, int workers);

}  // namespace ddprun
