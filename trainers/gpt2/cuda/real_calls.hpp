// Function tables of this machine's libraries.
#pragma once

#include "trainers/gpt2/cuda/calls.hpp"

namespace trainer::cuda {

/// Returns the functions of CUDA's runtime, to which the program is linked.
const RuntimeCalls& runtime_calls();

/// Returns the functions of this project's kernels, compiled by nvcc.
const KernelCalls& device_kernels();

/// Loads cuBLAS on the first call: the file in DDPRUN_CUBLAS_LIBRARY, if set; otherwise from the
/// loader's path, CUDA's folders, or the packages of each python3 in PATH. Throws Error{Errc::cuda}
/// with the searched places.
const BlasCalls& blas_calls();

}  // namespace trainer::cuda
