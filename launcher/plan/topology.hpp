// The CPUs and GPUs of a machine, read from sysfs, /proc and cgroups. Each reader takes the root
// folder, so tests can read other machines. Facts whose files are missing are left out; nothing
// throws. Any thread.
#pragma once

#include <filesystem>
#include <string>
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
struct Topology {
  std::vector<CpuFacts> cpus;  ///< ascending
  /// NUMA node of each GPU; -1 if unknown.
  std::vector<int> gpu_nodes;

  bool operator==(const Topology&) const = default;
};

/// One NVIDIA GPU that the driver shows this process.
struct GpuFacts {
  std::string uuid;  ///< "GPU-..."; empty if unknown
  int node = -1;     ///< NUMA node; -1: unknown

  bool operator==(const GpuFacts&) const = default;
};

/// The facts of these CPUs, in their order.
std::vector<CpuFacts> read_cpus(const std::filesystem::path& root, const std::vector<int>& cpus);

/// The GPUs in the order of their bus addresses, which is CUDA's where they are all of one kind.
std::vector<GpuFacts> read_gpus(const std::filesystem::path& root);

/// Returns the CPU quota of this process' cgroups (version 2 or 1) in CPUs: the minimum of its own
/// limit and those of its parents; 0 without a limit.
double read_cpu_quota(const std::filesystem::path& root);

}  // namespace ddprun
