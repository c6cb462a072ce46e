// Differentiable operations of a Compute as functions from vectors to a vector, each with its
// gradient, for comparison with finite differences and other implementations.
#pragma once

#include "tests/support/device_arrays.hpp"
#include "trainers/compute/compute.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ddprun::test {

struct ComputeCase {
  std::string name;
  std::vector<std::size_t> input_sizes;

  /// Returns the output for these inputs, computed with activations of `type`.
  std::function<Doubles(trainer::Compute& compute, DataType type,
                        const std::vector<Doubles>& inputs)>
      forward;

  /// Returns the gradient of sum(output * output_gradient) by each of the inputs. Accumulating
  /// operations start at a nonzero value, which is subtracted from the result.
  std::function<std::vector<Doubles>(trainer::Compute& compute, DataType type,
                                     const std::vector<Doubles>& inputs,
                                     const Doubles& output_gradient)>
      backward;
};

/// Returns all operations.
std::vector<ComputeCase> compute_cases();

/// Returns the operations that small networks need in addition to GPT-2's.
std::vector<ComputeCase> network_cases();

/// Returns random inputs of the sizes of the case.
std::vector<Doubles> random_inputs(const ComputeCase& one, std::mt19937& random);

/// Initial value of accumulated sums; exact in every float type.
inline constexpr double kBefore = 0.5;

/// Returns the difference to kBefore of an array that was filled with it.
inline Doubles added(trainer::Compute& compute, const trainer::Array& array) {
  Doubles values = from_device(compute, array.buffer);
  for (double& value : values) value -= kBefore;
  return values;
}

/// Data type of the statistics of operations on `type`.
inline DataType statistics(DataType type) {
  return type == DataType::float64 ? DataType::float64 : DataType::float32;
}

}  // namespace ddprun::test
