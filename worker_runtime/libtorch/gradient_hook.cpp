#include "worker_runtime/libtorch/gradient_hook.hpp"

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <utility>

namespace ddprun::torch {

namespace {

class AfterGradient : public ::torch::autograd::FunctionPostHook {
 public:
  explicit AfterGradient(std::function<void(const at::Tensor&)> call) : call_(std::move(call)) {}

  ::torch::autograd::variable_list operator()(
      const ::torch::autograd::variable_list& outputs,
      const ::torch::autograd::variable_list& gradients) override {
    call_(gradients.empty() ? at::Tensor() : gradients.front());
    return outputs;
  }

 private:
  std::function<void(const at::Tensor&)> call_;
};

}  // namespace

GradientHook::GradientHook(const at::Tensor& parameter, std::function<void(const at::Tensor&)> call)
    : accumulator_(::torch::autograd::impl::grad_accumulator(parameter)) {
  if (!accumulator_) return;
  key_ = accumulator_->add_post_hook(std::make_unique<AfterGradient>(std::move(call)));
}

GradientHook::~GradientHook() {
  if (accumulator_) accumulator_->del_post_hook(key_);
}

bool GradientHook::is_called_for(const at::Tensor& parameter) const {
  return accumulator_ &&
         ::torch::autograd::impl::try_get_grad_accumulator(parameter) == accumulator_;
}

}  // namespace ddprun::torch
