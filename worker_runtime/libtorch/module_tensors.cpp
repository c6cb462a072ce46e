#include "worker_runtime/libtorch/module_tensors.hpp"

#include <ddprun/torch/as_buffer.hpp>

#include <algorithm>
#include <set>

namespace ddprun::torch {

namespace {

std::vector<std::size_t> shape_in_memory(const at::Tensor& tensor) {
  std::vector<std::int64_t> dimensions(static_cast<std::size_t>(tensor.dim()));
  for (std::size_t i = 0; i < dimensions.size(); ++i) dimensions[i] = static_cast<std::int64_t>(i);
  if (!tensor.is_contiguous()) {
    std::stable_sort(dimensions.begin(), dimensions.end(), [&](std::int64_t a, std::int64_t b) {
      return tensor.stride(a) > tensor.stride(b);
    });
  }
  std::vector<std::size_t> shape;
  for (const auto dimension : dimensions)
    shape.push_back(static_cast<std::size_t>(tensor.size(dimension)));
  return shape;
}

}  // namespace

ModuleTensors tensors_of(const ::torch::nn::Module& module) {
  ModuleTensors found;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    auto& list = item.value().requires_grad() ? found.parameters : found.frozen;
    list.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    found.buffers.push_back({item.key(), item.value()});
  }
  return found;
}

std::vector<Parameter> reduced_parameters(const std::vector<NamedTensor>& parameters) {
  std::vector<Parameter> reduced;
  for (const auto& [name, tensor] : parameters) {
    const Buffer values = as_buffer(tensor, "parameter \"" + name + "\"");
    reduced.push_back({.name = name, .values = values, .shape = shape_in_memory(tensor)});
  }
  return reduced;
}

std::vector<Buffer> broadcast_buffers(const std::vector<NamedTensor>& buffers) {
  std::vector<Buffer> memory;
  for (const auto& [name, tensor] : buffers) {
    memory.push_back(as_copied_buffer(tensor, "buffer \"" + name + "\""));
  }
  return memory;
}

}  // namespace ddprun::torch
