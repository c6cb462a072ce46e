// Finds cuBLAS.
#pragma once

#include <ddprun/gpu_library.hpp>

namespace trainer::cuda {

/// Returns cuBLAS in the version of the headers at compile time.
const ddprun::GpuLibrary& blas_library();

}  // namespace trainer::cuda
