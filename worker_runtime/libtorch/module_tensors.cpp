#include "worker_runtime/libtorch/module_tensors.hpp"

#include <ddprun/torch/as_buffer.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace ddprun::torch {

namespace {

/// Returns the dimensions by descending stride.
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

std::string in_brackets(at::IntArrayRef numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
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

std::string describe(const at::Tensor& tensor) {
  return at::toString(tensor.scalar_type()) + in_brackets(tensor.sizes());
}

std::vector<Fact> facts_of(const ::torch::nn::Module& module) {
  std::vector<Fact> facts;
  for (const auto& item : module.named_parameters()) {
    const std::string thing = "parameter \"" + item.key() + "\"";
    const at::Tensor& tensor = item.value();
    facts.push_back({thing, describe(tensor)});
    facts.push_back({thing, tensor.requires_grad() ? "trained" : "frozen"});
    if (tensor.layout() != at::kStrided) continue;  // the reducer refuses it
    facts.push_back({"the order in memory of " + thing + "'s dimensions",
                     in_brackets(order_in_memory(tensor))});
  }
  for (const auto& item : module.named_buffers())
    facts.push_back({"buffer \"" + item.key() + "\"", describe(item.value())});
  return facts;
}

std::vector<Parameter> reduced_parameters(const std::vector<NamedTensor>& parameters) {
  std::vector<Parameter> reduced;
  for (const auto& [name, tensor] : parameters) {
    const Buffer values = as_buffer(tensor, "parameter \"" + name + "\"");
    std::vector<std::size_t> shape;
    for (const auto dimension : order_in_memory(tensor))
      shape.push_back(static_cast<std::size_t>(tensor.size(dimension)));
    reduced.push_back({.name = name, .values = values, .shape = std::move(shape)});
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
