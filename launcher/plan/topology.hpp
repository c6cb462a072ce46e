// Reads the CPUs and GPUs of a machine from sysfs, /proc and cgroups. Each reader takes the root
// folder, so that tests can use other machines' files. Facts whose files are missing are omitted;
// nothing throws. Thread-safe.
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

/// The part of the topology that bindings use.
struct Topology {
  std::vector<CpuFacts> cpus;  ///< ascending
  /// NUMA node of each GPU; -1 if unknown.
  std::vector<int> gpu_nodes;

  bool operator==(const Topology&) const = default;
};

/// An NVIDIA GPU that the driver shows to this process.
struct GpuFacts {
  std::string uuid;  ///< "GPU-..."; empty if unknown
  int node = -1;     ///< NUMA node; -1: unknown

  bool operator==(const GpuFacts&) const = default;
};

/// Returns the facts of these CPUs, in the same order.
std::vector<CpuFacts> read_cpus(const std::filesystem::path& root, const std::vector<int>& cpus);

/// Returns the GPUs in the order of their bus addresses, which is CUDA's order if all are of the
/// same model.
std::vector<GpuFacts> read_gpus(const std::filesystem::path& root);

/// Returns the CPU quota of this process' cgroups (version 2 or 1) in CPUs: the minimum of its own
/// limit and those of its parents; 0 without a limit.
double read_cpu_quota(const std::filesystem::path& root);

}  // namespace ddprun
