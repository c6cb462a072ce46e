#include "worker_runtime/libtorch/module_tensors.hpp"

#include <ddprun/torch/as_buffer.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace ddprun::torch {

namespace {

/// Dimensions, those first in which neighbours are farthest apart.
std::vector<std::int64_t> order_in_memory(const at::Tensor& tensor) {
  std::vector<std::int64_t> dimensions(static_cast<std::size_t>(tensor.dim()));
  std::iota(dimensions.begin(), dimensions.end(), 0);
  if (!tensor.is_contiguous()) {
    std::stable_sort(dimensions.begin(), dimensions.end(), [&](std::int64_t a, std::int64_t b) {
      return tensor.stride(a) > tensor.stride(b);
    });
  }
  return dimensions;
}

/// Names are compared over the ranks. Sizes do not tell of the order where several are equal.
std::string name_with_order(const NamedTensor& parameter,
                            const std::vector<std::int64_t>& dimensions) {
  if (std::is_sorted(dimensions.begin(), dimensions.end())) return parameter.name;
  std::string order;
  for (const auto dimension : dimensions)
    order += (order.empty() ? "" : ", ") + std::to_string(dimension);
  return parameter.name + " with dimensions " + order + " in memory";
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

std::vector<const void*> identities_of(const ::torch::nn::Module& module) {
  std::vector<const void*> identities;
  for (const auto& parameter : module.parameters())
    identities.push_back(parameter.unsafeGetTensorImpl());
  for (const auto& buffer : module.buffers()) identities.push_back(buffer.unsafeGetTensorImpl());
  return identities;
}

std::vector<Parameter> reduced_parameters(const std::vector<NamedTensor>& parameters) {
  std::vector<Parameter> reduced;
  for (const auto& parameter : parameters) {
    const auto& [name, tensor] = parameter;
    const Buffer values = as_buffer(tensor, "parameter \"" + name + "\"");
    const auto dimensions = order_in_memory(tensor);
    std::vector<std::size_t> shape;
    for (const auto dimension : dimensions)
      shape.push_back(static_cast<std::size_t>(tensor.size(dimension)));
    reduced.push_back({.name = name_with_order(parameter, dimensions),
                       .values = values,
                       .shape = std::move(shape)});
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
