// The device of programs built with CUDA, with this machine's libraries.
#include "trainers/gpt2/cuda/cuda_compute.hpp"
#include "trainers/gpt2/cuda/device_objects.hpp"
#include "trainers/gpt2/cuda/real_calls.hpp"
#include <ddprun/error.hpp>

#include <filesystem>

namespace trainer {

namespace {

/// Without a GPU, CUDA would report a missing driver. The second file is that of the Windows
/// Subsystem for Linux.
bool may_have_gpu() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) ||
         std::filesystem::exists("/dev/dxg", ignored);
}

}  // namespace

std::unique_ptr<Compute> make_cuda_compute(int index, bool is_shared) {
  if (!may_have_gpu()) {
    throw ddprun::Error(ddprun::Errc::usage, "there is no NVIDIA GPU here (no /dev/nvidiactl)");
  }
  static const cuda::Calls calls{&cuda::runtime_calls(), &cuda::blas_calls(),
                                 &cuda::device_kernels()};
  int devices = 0;
  if (is_shared)
    cuda::check(*calls.runtime, calls.runtime->get_device_count(&devices), "cudaGetDeviceCount");
  return cuda::make_compute(calls, devices > 0 ? index % devices : index);
}

}  // namespace trainer
