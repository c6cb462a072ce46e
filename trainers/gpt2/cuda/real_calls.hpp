// The tables of what is on this machine.
#pragma once

#include "trainers/gpt2/cuda/calls.hpp"

namespace trainer::cuda {

/// CUDA's runtime, which is linked in.
const RuntimeCalls& runtime_calls();

/// Our kernels, made by nvcc.
const KernelCalls& device_kernels();

/// cuBLAS, which is looked for where it may be when this is called first: the file that
/// DDPRUN_CUBLAS_LIBRARY names, if it is set; else where the loader looks, in CUDA's folders, and
/// in the packages of each python3 in PATH. Throws Error{Errc::cuda} saying where it was not.
const BlasCalls& blas_calls();

}  // namespace trainer::cuda
