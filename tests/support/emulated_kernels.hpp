// The project's kernels for the fake CUDA devices, run on the CPU.
#pragma once

#include "worker_runtime/cuda/exam_kernels.hpp"
#include "worker_runtime/cuda/kernel_calls.hpp"

namespace ddprun::test {

/// For streams of fake_cuda().
const cuda::KernelCalls& emulated_kernels();
const cuda::ExamKernels& emulated_exam();

}  // namespace ddprun::test
