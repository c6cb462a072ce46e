// Our own kernels for the fake's devices: the real ones, on the processor.
#pragma once

#include "worker_runtime/cuda/exam_kernels.hpp"
#include "worker_runtime/cuda/kernel_calls.hpp"
#include "worker_runtime/cuda/low_rank_kernels.hpp"

namespace ddprun::test {

/// For streams of fake_cuda().
const cuda::KernelCalls& emulated_kernels();
const cuda::ExamKernels& emulated_exam();
const cuda::LowRankKernels& emulated_low_rank();

/// The same at once; `backwards` as in KernelShape.
cudaError_t run_low_rank_here(const LowRankOrder& order, std::span<const LowRankMatrix> matrices,
                              bool backwards);

}  // namespace ddprun::test
