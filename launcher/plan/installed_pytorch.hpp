// The PyTorch that an interpreter would import, found without starting it: an import takes longer
// than the launch of a run.
#pragma once

#include <ddprun/worker_env.hpp>

#include <filesystem>
#include <optional>
#include <string>

namespace ddprun {

/// Returns the version of the interpreter's PyTorch if its clients cannot use the agent's store:
/// PyTorch 2.4 and later ask for libuv there, even if they were built without it, as Debian's is.
///
/// PyTorch is looked for in PYTHONPATH, the interpreter's virtual environment, the user's folder
/// and the system's, as Python does. Only a libtorch_cpu.so that lies outside PyTorch's own folder
/// is examined: PyPI's packages bring their own, with libuv. Nothing if there is no such PyTorch,
/// or if its files cannot be read. Reads at most 256 MiB (Debian's: 50 MB); blocks as file
/// reads do.
std::optional<std::string> pytorch_without_libuv(const std::filesystem::path& interpreter,
                                                 const EnvironmentLookup& environment);

}  // namespace ddprun
