// What a module consists of, as the reducer sees it. Pure but for what LibTorch's modules do.
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
  std::vector<NamedTensor> parameters;  ///< that require a gradient, in the order of definition
  std::vector<NamedTensor> frozen;      ///< parameters that require none
  std::vector<NamedTensor> buffers;
};

/// A tensor that is there under several names is taken once, by the first of them.
ModuleTensors tensors_of(const ::torch::nn::Module& module);

/// Which tensors these are, whatever their values: all parameters, then all buffers.
std::vector<const void*> identities_of(const ::torch::nn::Module& module);

/// "Float[2, 3]"
std::string describe(const at::Tensor& tensor);

/// What of a module must be the same on all ranks, in the order of its definition.
std::vector<Fact> facts_of(const ::torch::nn::Module& module);

/// The parameters as the reducer wants them. Dimensions are in the order in which they lie in
/// memory.
std::vector<Parameter> reduced_parameters(const std::vector<NamedTensor>& parameters);

std::vector<Buffer> broadcast_buffers(const std::vector<NamedTensor>& buffers);

}  // namespace ddprun::torch
