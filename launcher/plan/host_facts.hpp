// Facts about this machine and process that a plan depends on. They are gathered once, so that
// planning is pure and can be tested for other machines.
#pragma once

#include "launcher/plan/installed_pytorch.hpp"
#include "launcher/plan/topology.hpp"
#include <ddprun/worker_env.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Kind of file at a path.
enum class FileKind { missing, folder, not_executable, executable };

struct HostFacts {
  std::vector<int> cpus;  ///< CPUs that this process may run on
  double cpu_quota = 0;   ///< CPU quota of its cgroups in CPUs; 0: no limit
  int installed_gpus = 0;
  /// Entries of CUDA_VISIBLE_DEVICES if a GPU is in MIG mode; see read_divided_gpus().
  std::vector<std::string> divided_gpus;
  std::uint64_t open_files_max = 0;  ///< soft limit of this process; 0: unknown

  std::filesystem::path working_directory;
  std::filesystem::path program_directory;    ///< folder of the ddprun executable
  std::filesystem::path called_in;            ///< folder of the name or link used in the call
  std::filesystem::path temporary_directory;  ///< TMPDIR or /tmp
  std::string random_name;                    ///< eight letters and digits, new for each run
  std::string host_name;
  std::string random_run_id;  ///< a UUID, new for each run

  EnvironmentLookup environment;
  std::function<FileKind(const std::filesystem::path&)> file_kind;
  // Functions, because they read many files and only few runs need them.
  std::function<std::vector<CpuFacts>()> read_cpus;  ///< reads the facts of `cpus`
  std::function<std::vector<GpuFacts>()> read_gpus;  ///< reads all installed GPUs
  std::function<std::optional<InstalledPytorch>(const std::filesystem::path& interpreter,
                                                const EnvironmentLookup&)>
      find_pytorch;  ///< see installed_pytorch.hpp
  /// Reads the first MiB of a regular file; empty if it cannot be read.
  std::function<std::string(const std::filesystem::path&)> read_program;
};

/// Returns the facts of this process. Unreadable facts are empty. Throws if there is no working
/// directory.
HostFacts gather_host_facts(const EnvironmentLookup& environment);

}  // namespace ddprun
