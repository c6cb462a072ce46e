#include "worker_runtime/libtorch/replica_gradients.hpp"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace ddprun::torch {

namespace {

/// A program may have taken the gradient away to keep it, or have changed the parameter.
bool can_hold(const at::Tensor& kept, const at::Tensor& gradient) {
  return kept.defined() && kept.use_count() == 1 && kept.storage().use_count() == 1 &&
         kept.sizes() == gradient.sizes() && kept.strides() == gradient.strides() &&
         kept.scalar_type() == gradient.scalar_type() && kept.device() == gradient.device();
}

}  // namespace

ReplicaGradients::ReplicaGradients(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)), kept_(parameters_.size()), is_new_(parameters_.size()) {
  hooks_.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    hooks_.emplace_back(parameters_[i], [this, i](const at::Tensor&) { keep(i); });
}

void ReplicaGradients::begin(bool adds) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].mutable_grad();
    if (!adds) gradient.reset();
    is_new_[i] = !gradient.defined();
  }
}

void ReplicaGradients::keep(std::size_t parameter) {
  const at::NoGradGuard no_graph;
  at::Tensor& gradient = parameters_[parameter].mutable_grad();
  at::Tensor& kept = kept_[parameter];
  if (!gradient.defined() || gradient.layout() != at::kStrided || gradient.is_same(kept)) return;
  if (is_new_[parameter] && can_hold(kept, gradient)) {
    gradient = kept.copy_(gradient);
  } else {
    kept = gradient;
  }
}

}  // namespace ddprun::torch
