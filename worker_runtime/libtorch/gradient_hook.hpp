// Calls a function whenever a backward pass has accumulated a gradient of a parameter, during the
// lifetime of the object. LibTorch calls it on the thread of the backward pass.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace ddprun::torch {

/// Node that accumulates a parameter's gradient: a std::shared_ptr in old versions, LibTorch's own
/// pointer in new ones.
using Accumulator =
    decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

class GradientHook {
 public:
  /// `call` receives the accumulated gradient of this pass; the sum is the parameter's grad().
  /// Never called for a parameter that requires no gradient.
  GradientHook(const at::Tensor& parameter, std::function<void(const at::Tensor& added)> call);
  GradientHook(GradientHook&&) = default;
  GradientHook& operator=(GradientHook&&) = delete;
  ~GradientHook();

  /// Returns true if LibTorch still calls the hook. It does not after set_data() of the parameter,
  /// even with the same memory.
  bool is_called_for(const at::Tensor& parameter) const;

 private:
  /// LibTorch only keeps a weak reference, and creates another one for each graph.
  Accumulator accumulator_;
  std::uintptr_t key_ = 0;
};

}  // namespace ddprun::torch
