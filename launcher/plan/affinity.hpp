// CPUs of each worker, for --affinity and torchrun's --numa_binding. Pure; topology.hpp reads the
// machine's topology.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/topology.hpp"

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// CPUs of each worker by local rank; empty: any CPU.
using CpuMap = std::vector<std::vector<int>>;

/// Returns the CPUs of each of `workers` workers, or the reason why the machine does not allow the
/// binding. Worker n is placed on the NUMA node of GPU n if the nodes of all workers' GPUs are
/// known; otherwise, contiguous groups of workers are distributed over the nodes.
std::variant<CpuMap, std::string> bind_workers(const Topology& topology, const Affinity& affinity,
                                               int workers);

/// Resolves Kind::automatic for workers that use the GPUs: Kind::node if the machine has several
/// NUMA nodes, the nodes of all workers' GPUs are known, and each worker gets at least half of an
/// equal share of all CPUs; otherwise Kind::none. Batch systems may allocate few CPUs of a node.
Affinity::Kind default_affinity(const Topology& topology, int workers);

/// Returns the number of physical cores of each worker, at least one. A core that several workers
/// share is divided between them.
std::vector<int> cores_of_each(const Topology& topology, const CpuMap& map);

/// Returns the NUMA node that contains all these CPUs; -1 if they are on several nodes.
int common_node(const Topology& topology, const std::vector<int>& cpus);

/// Returns the map as a line of limited length, for example "rank 0: 0-7; ranks 1-2: 8-15 (NUMA
/// node 0)".
std::string describe_map(const Topology& topology, const CpuMap& map);

}  // namespace ddprun
