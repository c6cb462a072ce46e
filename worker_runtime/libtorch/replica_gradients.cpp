#include "worker_runtime/libtorch/replica_gradients.hpp"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace ddprun::torch {

namespace {

/// Returns false if the program has kept the gradient or changed the parameter.
bool can_hold(const at::Tensor& kept, const at::Tensor& gradient) {
  return kept.defined() && kept.use_count() == 1 && kept.storage().use_count() == 1 &&
         kept.sizes() == gradient.sizes() && kept.strides() == gradient.strides() &&
         kept.scalar_type() == gradient.scalar_type() && kept.device() == gradient.device();
}

}  // namespace

ReplicaGradients::ReplicaGradients(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)),
      kept_(parameters_.size()),
      was_there_(parameters_.size()),
      hooks_(parameters_.size()) {}

void ReplicaGradients::renew_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    if (!parameter.requires_grad() || (hooks_[i] && hooks_[i]->is_called_for(parameter))) continue;
    hooks_[i].reset();
    hooks_[i] =
        std::make_unique<GradientHook>(parameter, [this, i](const at::Tensor&) { keep(i); });
  }
}

ReplicaGradients::Step::Step(ReplicaGradients& gradients, bool adds) : gradients_(gradients) {
  gradients.renew_hooks();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!adds) gradients[i].reset();
    gradients.was_there_[i] = gradients[i].defined();
  }
  gradients.is_in_step_ = true;
}

void ReplicaGradients::keep(std::size_t parameter) {
  at::Tensor& gradient = parameters_[parameter].mutable_grad();
  if (!is_in_step_ || was_there_[parameter]) return;
  if (!gradient.defined() || gradient.layout() != at::kStrided) return;
  at::Tensor& kept = kept_[parameter];
  // An earlier pass of this step has moved it.
  if (gradient.is_same(kept)) return;
  const at::NoGradGuard no_graph;
  if (can_hold(kept, gradient)) {
    kept.copy_(gradient);
  } else {
    kept = gradient.clone();
  }
  gradient = kept;
}

}  // namespace ddprun::torch
