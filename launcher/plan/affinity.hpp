// Which CPUs each worker runs on (--affinity, and --numa_binding, its spelling in torchrun). The
// machine's topology is a plain value (topology.hpp); everything here is pure.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/topology.hpp"

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// The CPUs of each worker, by local rank; no CPUs: any.
using CpuMap = std::vector<std::vector<int>>;

/// The CPUs of each of `workers` workers, or why the machine does not allow the binding. Worker n
/// goes to the node of GPU n if that is known for all workers; otherwise the workers are spread
/// over the nodes in contiguous groups.
std::variant<CpuMap, std::string> bind_workers(const Topology& topology, const Affinity& affinity,
                                               int workers);

/// How many physical cores each worker has: those that several workers have count in parts, and
/// each worker has at least one.
std::vector<int> cores_of_each(const Topology& topology, const CpuMap& map);

/// The NUMA node on which all of these CPUs lie; -1 if there is none.
int common_node(const Topology& topology, const std::vector<int>& cpus);

/// The map in one line, e.g. "rank 0: 0-7; ranks 1-2: 8-15 (NUMA node 0)". What many ranks would
/// make too long ends with their number.
std::string describe_map(const Topology& topology, const CpuMap& map);

}  // namespace ddprun
