// Parameters and buffers of a module for the reducer. Pure.
#pragma once

#include <ddprun/rank_agreement.hpp>
#include <ddprun/reducer_options.hpp>

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace ddprun::torch {

struct NamedTensor {
  std::string name;  ///< "encoder.0.weight"
  at::Tensor tensor;
};

struct ModuleTensors {
  /// parameters that require a gradient, in the order of definition
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> frozen;  ///< parameters that require no gradient
  std::vector<NamedTensor> buffers;
};

/// A tensor with several names is listed once, by the first of them.
ModuleTensors tensors_of(const ::torch::nn::Module& module);

/// Returns the identities of all parameters, then all buffers.
std::vector<const void*> identities_of(const ::torch::nn::Module& module);

/// Returns text such as "Float[2, 3]".
std::string describe(const at::Tensor& tensor);

/// Returns the facts that must be equal on all ranks, in the order of definition.
std::vector<Fact> facts_of(const ::torch::nn::Module& module);

/// Returns the parameters for the reducer, with dimensions in the order of memory.
std::vector<Parameter> reduced_parameters(const std::vector<NamedTensor>& parameters);

std::vector<Buffer> broadcast_buffers(const std::vector<NamedTensor>& buffers);

}  // namespace ddprun::torch
