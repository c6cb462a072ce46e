// cuBLAS as a machine has it.
#pragma once

#include <ddprun/gpu_library.hpp>

namespace trainer::cuda {

/// Of the version whose header this was compiled with: it has the same types and calls.
const ddprun::GpuLibrary& blas_library();

}  // namespace trainer::cuda
