// State changed by training: parameters and buffers, in the memory of their device.
#pragma once

#include "trainers/compute/compute.hpp"

#include <cstddef>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace trainer {

/// Device and type in which a model computes. The Compute must outlive all objects created with it.
struct Place {
  Compute* compute;
  ddprun::DataType type = ddprun::DataType::float32;

  /// Type of statistics, losses and the optimizer's state.
  ddprun::DataType exact_type() const {
    return type == ddprun::DataType::bfloat16 ? ddprun::DataType::float32 : type;
  }
};

/// Places of a model's embedding, if any, and of the rest.
struct Places {
  Place rest;
  Place embedding;
};

/// A trainable parameter. Its gradient is in the reducer's memory, which saves a copy before
/// averaging.
struct Parameter {
  std::string name;
  std::size_t index = 0;           ///< position among all parameters of the model
  std::vector<std::size_t> shape;  ///< its dimensions
  Place place;
  Array values;       ///< used by layers
  Array master;       ///< float32 copy of bfloat16 values, which is trained; otherwise the values
  Buffer gradient{};  ///< gradient in the master's type; backward passes add to it

  std::size_t elements() const { return values.buffer.elements; }
};

/// Creates a parameter with the given initial values.
Parameter make_parameter(const Place& place, const std::string& name,
                         const std::vector<std::size_t>& shape, std::span<const float> values);

/// Creates a parameter initialised like PyTorch's Linear: uniform within 1/sqrt(inputs).
Parameter make_uniform_parameter(const Place& place, const std::string& name,
                                 const std::vector<std::size_t>& shape, std::size_t inputs,
                                 std::mt19937& random);

/// Copies the master to the values.
void publish(const Parameter& parameter);

/// State that is not trained by gradients, such as running statistics.
struct StateBuffer {
  Compute* compute;
  Array values;  ///< in Place::exact_type()
};

/// Creates an array in which all elements are `value`.
StateBuffer make_state(const Place& place, std::size_t elements, float value);

/// Called when the gradient of a parameter is complete in a backward pass, so that its all-reduce
/// overlaps with the computation of earlier layers.
using GradientReady = std::function<void(const Parameter&)>;

}  // namespace trainer
