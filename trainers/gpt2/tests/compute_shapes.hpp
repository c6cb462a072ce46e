// Operations of all sizes that kernels of a device distinguish: rows that are a multiple of vectors
// or not, more rows than a block takes, all widths of heads. Each run returns the output of the
// operation, for comparison with another implementation.
#pragma once

#include "tests/support/device_arrays.hpp"
#include "trainers/compute/compute.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::test {

struct ComputeShape {
  std::string name;
  /// With random arrays of `type`, the same on each device.
  std::function<std::vector<Doubles>(trainer::Compute& compute, DataType type)> run;
};

/// GPT-2's operations except for attention.
std::vector<ComputeShape> compute_shapes();

/// Operations that small networks need in addition.
std::vector<ComputeShape> network_shapes();

std::vector<ComputeShape> attention_shapes();

}  // namespace ddprun::test
