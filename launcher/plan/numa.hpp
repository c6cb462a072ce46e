// Which CPUs each worker runs on (--numa_binding). The machine's topology is a plain value, read
// from sysfs in host_facts.cpp; everything here is pure.
#pragma once

#include "launcher/cli/launch_options.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

/// One CPU (hardware thread) that this process may run on.
struct CpuFacts {
  int cpu = 0;
  int node = 0;        ///< NUMA node
  int socket = 0;      ///< physical package
  int core = 0;        ///< the lowest CPU of the same physical core
  int last_cache = 0;  ///< the lowest CPU that shares the last-level cache

  bool operator==(const CpuFacts&) const = default;
};

/// The topology as far as bindings need it.
struct NumaTopology {
  std::vector<CpuFacts> cpus;  ///< ascending
  /// NUMA node of each GPU, -1 where the kernel does not say.
  std::vector<int> gpu_nodes;

  bool operator==(const NumaTopology&) const = default;
};

/// The CPUs of each of `workers` workers, or why the machine does not allow the binding. Worker n
/// goes to the node of GPU n if that is known for all workers; otherwise the workers are spread
/// over the nodes in contiguous groups.
std::variant<std::vector<std::vector<int>>, std::string> bind_workers(const NumaTopology& topology,
                                                                      NumaBinding binding,
                                                                      int workers);

/// A kernel list such as "0-3,8,10-11"; empty if it is not one.
std::vector<int> parse_cpu_list(std::string_view text);

/// The reverse, for reports: "0-3,8".
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace ddprun
