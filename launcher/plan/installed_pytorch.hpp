// The PyTorch that an interpreter would import, found without starting it: an import takes longer
// than the launch of a run.
#pragma once

#include <ddprun/worker_env.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct InstalledPytorch {
  std::string version;  ///< "2.6.0+debian"
  /// Its clients cannot use the agent's store: PyTorch 2.4 and later ask for libuv there, even if
  /// they were built without it, as Debian's is.
  bool lacks_libuv = false;

  bool operator==(const InstalledPytorch&) const = default;
};

/// PyTorch is looked for in PYTHONPATH, the interpreter's virtual environment, the user's folder
/// and the system's, as Python does, but not where a .pth file of these leads. Only a
/// libtorch_cpu.so that lies outside PyTorch's own folder is examined: PyPI's packages bring their
/// own, with libuv. Nothing if no PyTorch is found. Reads at most 256 MiB (Debian's: 50 MB); blocks
/// as file reads do.
std::optional<InstalledPytorch> find_pytorch(const std::filesystem::path& interpreter,
                                             const EnvironmentLookup& environment);

/// The option by which torch.distributed.launch of this version gives a script its local rank:
/// "--local_rank" before 2.0, "--local-rank" since, and where there is no version.
std::string_view local_rank_option(std::string_view version);

}  // namespace ddprun
