// What a program that was built with CUDA has: the libraries of this machine behind the tables.
#include "trainers/compute/cuda/cuda_compute.hpp"
#include "trainers/compute/cuda/device_objects.hpp"
#include "trainers/compute/cuda/real_calls.hpp"

namespace trainer {

std::unique_ptr<Compute> make_cuda_compute(int index, bool is_shared) {
  static const cuda::Calls calls{&cuda::runtime_calls(), &cuda::blas_calls(),
                                 &cuda::device_kernels()};
  int devices = 0;
  if (is_shared)
    cuda::check(*calls.runtime, calls.runtime->get_device_count(&devices), "cudaGetDeviceCount");
  return cuda::make_compute(calls, devices > 0 ? index % devices : index);
}

}  // namespace trainer
