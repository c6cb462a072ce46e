// Differentiable operations of a Compute as functions from vectors to a vector, each with its
// gradient, so that any implementation can be held against finite differences and against another
// implementation.
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

  /// The output for these inputs, computed with activations of `type`.
  std::function<Doubles(trainer::Compute& compute, DataType type,
                        const std::vector<Doubles>& inputs)>
      forward;

  /// The gradient of sum(output * output_gradient) by each of the inputs. What the operation adds
  /// to does not begin at zero; what was there is taken off again.
  std::function<std::vector<Doubles>(trainer::Compute& compute, DataType type,
                                     const std::vector<Doubles>& inputs,
                                     const Doubles& output_gradient)>
      backward;
};

/// All operations.
std::vector<ComputeCase> compute_cases();

/// Of those, the ones that small networks need besides GPT-2's.
std::vector<ComputeCase> network_cases();

/// Random inputs of the sizes that the case wants.
std::vector<Doubles> random_inputs(const ComputeCase& one, std::mt19937& random);

/// Value that sums are added to; no float type rounds it.
inline constexpr double kBefore = 0.5;

/// What was added to an array that held kBefore.
inline Doubles added(trainer::Compute& compute, const trainer::Array& array) {
  Doubles values = from_device(compute, array.buffer);
  for (double& value : values) value -= kBefore;
  return values;
}

/// The data type of the statistics that operations on `type` keep.
inline DataType statistics(DataType type) {
  return type == DataType::float64 ? DataType::float64 : DataType::float32;
}

}  // namespace ddprun::test
