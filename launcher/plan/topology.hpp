// Reads the CPUs and GPUs of a machine from sysfs, /proc and cgroups. Readers take the root folder,
// so that tests can use files of other machines. Omits facts whose files are missing, and does not
// throw. Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

/// A CPU (hardware thread) that this process may run on.
struct CpuFacts {
  int cpu = 0;
  int node = 0;        ///< NUMA node
  int socket = 0;      ///< physical package
  int core = 0;        ///< lowest CPU of the same physical core
  int last_cache = 0;  ///< lowest CPU that shares the last-level cache

  bool operator==(const CpuFacts&) const = default;
};

/// The part of the topology that bindings use.
struct Topology {
  std::vector<CpuFacts> cpus;  ///< CPUs in ascending order
  /// NUMA node of each GPU; -1 if unknown.
  std::vector<int> gpu_nodes;

  bool operator==(const Topology&) const = default;
};

/// An NVIDIA GPU that this process may use.
struct GpuFacts {
  std::string uuid;  ///< "GPU-..."; empty if unknown
  int node = -1;     ///< NUMA node; -1: unknown

  bool operator==(const GpuFacts&) const = default;
};

/// Returns the facts of these CPUs, in the same order.
std::vector<CpuFacts> read_cpus(const std::filesystem::path& root, const std::vector<int>& cpus);

/// Returns the number of NVIDIA GPUs that this process may use. In containers, the driver's folder
/// in /proc lists all GPUs of the host or is missing, while /dev has files for the container's
/// GPUs.
int count_gpus(const std::filesystem::path& root);

/// Returns these GPUs in the order of their bus addresses, which is CUDA's order for GPUs of the
/// same model.
std::vector<GpuFacts> read_gpus(const std::filesystem::path& root);

/// Returns entries of CUDA_VISIBLE_DEVICES for all GPUs if at least one is divided into MIG
/// devices: the MIG devices that this process may use ("MIG-GPU-.../1/0") and the UUIDs of the
/// other GPUs. Returns an empty list if no GPU is divided or a UUID is unknown.
std::vector<std::string> read_divided_gpus(const std::filesystem::path& root);

/// Returns the CPU quota of this process' cgroups (version 2 or 1) in CPUs; 0: no limit. It is the
/// minimum of the limits of the cgroup and its parents.
double read_cpu_quota(const std::filesystem::path& root);

}  // namespace ddprun
