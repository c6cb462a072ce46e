// Compute on a CUDA device: cuBLAS for matrix products, our own kernels for all other operations.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/cuda/calls.hpp"

#include <memory>

namespace trainer::cuda {

/// Throws Error{Errc::usage} with the number of devices if there is no such device.
std::unique_ptr<Compute> make_compute(const Calls& calls, int index);

/// Returns the peak floating-point operations per second of all multiprocessors at the highest
/// clock: matrix products of bfloat16 or, if `is_bfloat16` is false, float32 additions and
/// multiplications; 0 for an unknown compute capability.
double peak_flops(bool is_bfloat16, int capability_major, int capability_minor, int multiprocessors,
                  int kilohertz);

}  // namespace trainer::cuda
