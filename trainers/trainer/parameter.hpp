// What training changes: parameters and other state, in the memory of the device that computes with
// them.
#pragma once

#include "trainers/compute/compute.hpp"

#include <cstddef>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace trainer {

/// Where a model computes, and in which type. The Compute outlives all that is made with it.
struct Place {
  Compute* compute;
  ddprun::DataType type = ddprun::DataType::float32;

  /// Of statistics, losses and the optimizer's state.
  ddprun::DataType exact_type() const {
    return type == ddprun::DataType::bfloat16 ? ddprun::DataType::float32 : type;
  }
};

/// Where the parts of a model compute: its embedding, if it has one, and the rest.
struct Places {
  Place rest;
  Place embedding;
};

/// A trainable parameter. Its gradient lives where the reducer wants it, so that nothing is copied
/// before it is averaged over the workers.
struct Parameter {
  std::string name;
  std::size_t index = 0;           ///< position among all parameters of the model
  std::vector<std::size_t> shape;  ///< its dimensions
  Place place;
  Array values;       ///< what layers compute with
  Array master;       ///< float32 of values in bfloat16: what is trained; otherwise the values
  Buffer gradient{};  ///< of the master's type; backward passes add to it

  std::size_t elements() const { return values.buffer.elements; }
};

/// With these first values.
Parameter make_parameter(const Place& place, const std::string& name,
                         const std::vector<std::size_t>& shape, std::span<const float> values);

/// With first values as those of PyTorch's Linear: uniform within 1/sqrt(inputs).
Parameter make_uniform_parameter(const Place& place, const std::string& name,
                                 const std::vector<std::size_t>& shape, std::size_t inputs,
                                 std::mt19937& random);

/// Gives the parameter the values of its master.
void publish(const Parameter& parameter);

/// State that is not trained by gradients, such as running statistics.
struct StateBuffer {
  Compute* compute;
  Array values;  ///< of Place::exact_type()
};

/// All elements `value`.
StateBuffer make_state(const Place& place, std::size_t elements, float value);

/// Called as soon as the gradient of a parameter is complete for this backward pass, so that its
/// communication runs while earlier layers still compute.
using GradientReady = std::function<void(const Parameter&)>;

}  // namespace trainer
