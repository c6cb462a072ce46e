// Finds NCCL on the machine a worker runs on, which need not be the one it was built on.
#pragma once

#include "worker_runtime/backends/nccl/nccl_calls.hpp"

#include <string>
#include <vector>

namespace ddprun::nccl {

/// What the search depends on.
struct SearchFacts {
  std::string wanted;     ///< DDPRUN_NCCL_LIBRARY
  std::string cuda_home;  ///< CUDA_HOME, else CUDA_PATH
  std::string path;       ///< PATH
};

/// Where to look, in this order: only what was asked for, if something was; else where the loader
/// looks, CUDA's folders, and the packages of the Pythons in PATH, in which PyTorch brings its own.
/// Reads folders, and loads nothing.
std::vector<std::string> nccl_candidates(const SearchFacts& facts);

/// NCCL's functions. The library stays loaded until the process ends. Throws Error{Errc::nccl} that
/// says where it was looked for, and what was wrong there.
NcclCalls load_nccl();

}  // namespace ddprun::nccl
