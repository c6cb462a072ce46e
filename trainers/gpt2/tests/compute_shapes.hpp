// Operations of all sizes that a device's kernels distinguish: rows that are or are not a multiple
// of the vector size, more rows than a block handles, all head sizes. Each run returns the output
// of the operation, for comparison with another implementation.
#pragma once

#include "tests/support/device_arrays.hpp"
#include "trainers/compute/compute.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::test {

struct ComputeShape {
  std::string name;
  /// Runs the operation on random arrays of `type`, the same on each device.
  std::function<std::vector<Doubles>(trainer::Compute& compute, DataType type)> run;
};

/// Returns GPT-2's operations except for attention.
std::vector<ComputeShape> compute_shapes();

/// Returns the additional operations of small networks.
std::vector<ComputeShape> network_shapes();

std::vector<ComputeShape> attention_shapes();

}  // namespace ddprun::test
