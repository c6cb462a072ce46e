// Where cuBLAS may be.
#pragma once

#include <string>
#include <vector>

namespace trainer::cuda {

/// What the search depends on.
struct BlasFacts {
  std::string wanted;                 ///< DDPRUN_CUBLAS_LIBRARY
  std::string cuda_home;              ///< CUDA_HOME or CUDA_PATH
  std::string path;                   ///< PATH, for the Pythons in it
  std::string system = "/usr/local";  ///< where CUDA's folders are
};

/// What to hand to dlopen, one after the other: `wanted` alone if there is such; else the plain
/// name, for the loader to find, and the files that exist in CUDA's folders and in the packages of
/// Pythons.
std::vector<std::string> blas_candidates(const BlasFacts& facts);

}  // namespace trainer::cuda
