// Finds the PyTorch installation that an interpreter would import, without starting the
// interpreter: an import takes longer than the launch of a run.
#pragma once

#include <ddprun/worker_env.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct InstalledPytorch {
  std::string version;  ///< version, such as "2.6.0+debian"
  /// True if its clients cannot use the agent's store. PyTorch 2.4 and later request libuv there,
  /// even if built without libuv, like Debian's package.
  bool lacks_libuv = false;

  bool operator==(const InstalledPytorch&) const = default;
};

/// Searches PYTHONPATH, the interpreter's virtual environment, the user's folder and the system's
/// folders in Python's order, but does not follow .pth files. Examines libtorch_cpu.so only outside
/// PyTorch's folder: PyPI's packages include the file, with libuv. Returns nullopt if no PyTorch is
/// found. Reads at most 256 MiB (Debian's file: 50 MB), and blocks on file reads.
std::optional<InstalledPytorch> find_pytorch(const std::filesystem::path& interpreter,
                                             const EnvironmentLookup& environment);

/// Returns the option with which this version's torch.distributed.launch passes the local rank to a
/// script: "--local_rank" before 2.0, otherwise or if the version is empty "--local-rank".
std::string_view local_rank_option(std::string_view version);

}  // namespace ddprun
