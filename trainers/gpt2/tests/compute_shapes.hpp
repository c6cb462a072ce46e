// Operations of the sizes that a device's kernels tell apart: rows that vectors divide and that
// they do not, more rows than a block takes, all widths of heads. Each run returns what the
// operation wrote, so that an implementation can be held against another one.
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

/// GPT-2's operations but attention.
std::vector<ComputeShape> compute_shapes();

/// Those that small networks need besides.
std::vector<ComputeShape> network_shapes();

std::vector<ComputeShape> attention_shapes();

}  // namespace ddprun::test
