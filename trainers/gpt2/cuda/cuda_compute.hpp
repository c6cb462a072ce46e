// A Compute on a CUDA device: cuBLAS for products of matrices, our own kernels for all else.
#pragma once

#include "trainers/compute/compute.hpp"
#include "trainers/gpt2/cuda/calls.hpp"

#include <memory>

namespace trainer::cuda {

/// Throws Error{Errc::usage} if there is no such device, saying how many there are.
std::unique_ptr<Compute> make_compute(const Calls& calls, int index);

/// Floating-point operations of all multiprocessors in a second, products of matrices of bfloat16
/// (or, if not, additions and multiplications of float32) at the highest clock; 0 for a compute
/// capability that is not known.
double peak_flops(bool is_bfloat16, int capability_major, int capability_minor, int multiprocessors,
                  int kilohertz);

}  // namespace trainer::cuda
