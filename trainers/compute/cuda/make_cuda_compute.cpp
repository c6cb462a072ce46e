// What a program that was built with CUDA has: the libraries of this machine behind the tables.
#include "trainers/compute/cuda/cuda_compute.hpp"
#include "trainers/compute/cuda/real_calls.hpp"

namespace trainer {

std::unique_ptr<Compute> make_cuda_compute(int index) {
  static const cuda::Calls calls{&cuda::runtime_calls(), &cuda::blas_calls(),
                                 &cuda::device_kernels()};
  return cuda::make_compute(calls, index);
}

}  // namespace trainer
