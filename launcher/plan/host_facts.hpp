// What a plan needs to know of this machine and this process, gathered once and in one place, so
// that everything after it is pure and can be tested on machines that do not exist.
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

/// What stands at a path.
enum class FileKind { missing, folder, not_executable, executable };

struct HostFacts {
  std::vector<int> cpus;  ///< this process may run on
  double cpu_quota = 0;   ///< CPUs' worth of time that its cgroups allow it; 0: no limit
  int installed_gpus = 0;
  std::uint64_t open_files_max = 0;  ///< soft limit of this process; 0: not known

  std::filesystem::path working_directory;
  std::filesystem::path program_directory;  ///< where ddprun itself lies
  std::filesystem::path called_in;  ///< folder of the name it was called by, perhaps a link's
  std::filesystem::path temporary_directory;  ///< TMPDIR or /tmp
  std::string random_name;                    ///< eight letters and digits, new for each run
  std::string host_name;
  std::string random_run_id;  ///< a UUID, new for each run

  EnvironmentLookup environment;
  std::function<FileKind(const std::filesystem::path&)> look_at;
  // Functions because they take many file reads and few runs need them.
  std::function<std::vector<CpuFacts>()> read_cpus;  ///< of `cpus`
  std::function<std::vector<GpuFacts>()> read_gpus;  ///< all installed ones
  std::function<std::optional<InstalledPytorch>(const std::filesystem::path& interpreter,
                                                const EnvironmentLookup&)>
      find_pytorch;  ///< see installed_pytorch.hpp
};

/// The facts of this process. What cannot be read is left empty; throws only if there is no working
/// directory.
HostFacts gather_host_facts(const EnvironmentLookup& environment);

}  // namespace ddprun
