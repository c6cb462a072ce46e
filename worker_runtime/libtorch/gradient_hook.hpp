// A call for each time that a backward pass has come to a parameter, made as long as the object
// lives. LibTorch makes it, on the thread of the pass.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <functional>
#include <utility>

namespace ddprun::torch {

/// To the node that adds to a parameter's gradient: the standard library's shared pointer in old
/// versions, LibTorch's own in new ones.
using Accumulator =
    decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

class GradientHook {
 public:
  /// `call` gets what the pass adds to the gradient, after it has been added; the whole of it is
  /// where the parameter has its gradient. A parameter that requires none is never told of.
  GradientHook(const at::Tensor& parameter, std::function<void(const at::Tensor& added)> call);
  GradientHook(GradientHook&&) = default;
  GradientHook& operator=(GradientHook&&) = delete;
  ~GradientHook();

  /// Whether LibTorch still makes the call: it no longer does once the parameter has been given
  /// other memory, even if that is its own again.
  bool is_called_for(const at::Tensor& parameter) const;

 private:
  /// Made anew for each graph unless somebody keeps it.
  Accumulator accumulator_;
  std::uintptr_t key_ = 0;
};

}  // namespace ddprun::torch
