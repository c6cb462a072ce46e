#include "worker_runtime/cuda/cuda_calls.hpp"
#include <ddprun/error.hpp>

namespace ddprun::cuda {

void check(const CudaCalls& calls, cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  // Clears the error, which the next call would return again.
  calls.get_last_error();
  throw Error(Errc::cuda, what + ": " + calls.error_string(error));
}

}  // namespace ddprun::cuda
