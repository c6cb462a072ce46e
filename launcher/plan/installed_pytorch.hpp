// Finds the PyTorch installation that an interpreter would import, without starting it: an import
// takes longer than the launch of a run.
#pragma once

#include <ddprun/worker_env.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct InstalledPytorch {
  std::string version;  ///< "2.6.0+debian"
  /// True if its clients cannot use the agent's store: PyTorch 2.4 and later request libuv there,
  /// even if they were built without it, as Debian's package is.
  bool lacks_libuv = false;

  bool operator==(const InstalledPytorch&) const = default;
};

/// Searches PYTHONPATH, the interpreter's virtual environment, the user's folder and the system's,
/// in Python's order, but does not follow .pth files. Examines only a libtorch_cpu.so outside
/// PyTorch's own folder: PyPI's packages include one, with libuv. Returns nullopt if no PyTorch is
/// found. Reads at most 256 MiB (Debian's: 50 MB); blocks as file reads do.
std::optional<InstalledPytorch> find_pytorch(const std::filesystem::path& interpreter,
                                             const EnvironmentLookup& environment);

/// Returns the option with which torch.distributed.launch of this version passes the local rank to
/// a script: "--local_rank" before 2.0, "--local-rank" since, and if the version is empty.
std::string_view local_rank_option(std::string_view version);

}  // namespace ddprun
