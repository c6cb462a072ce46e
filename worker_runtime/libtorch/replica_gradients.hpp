// Gradients of one replica's parameters in memory that is reused in each step. New memory would
// cost a page fault per 4 KiB, and the C library returns memory of threads to the system earlier
// than memory of the main thread. LibTorch itself may share memory between gradients of two
// parameters.
#pragma once

#include "worker_runtime/libtorch/gradient_hook.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace ddprun::torch {

class ReplicaGradients {
 public:
  /// `parameters` must be distinct.
  explicit ReplicaGradients(std::vector<at::Tensor> parameters);
  ReplicaGradients(const ReplicaGradients&) = delete;
  ReplicaGradients& operator=(const ReplicaGradients&) = delete;

  std::size_t size() const { return parameters_.size(); }

  /// Returns the gradient of the parameter; undefined before the first backward pass.
  at::Tensor& operator[](std::size_t parameter) { return parameters_[parameter].mutable_grad(); }

  at::Device device_of(std::size_t parameter) const { return parameters_[parameter].device(); }

  /// A step: backward passes during its lifetime accumulate gradients, starting from existing ones
  /// if there are any.
  class Step {
   public:
    Step(ReplicaGradients& gradients, bool adds);
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step() { gradients_.is_in_step_ = false; }

   private:
    ReplicaGradients& gradients_;
  };

 private:
  /// Moves a new gradient into the memory of an earlier one.
  void keep(std::size_t parameter);

  /// Renews the hooks of parameters that were moved or now require a gradient.
  void renew_hooks();

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> kept_;
  /// gradients that existed at the start of the step; they belong to the program unless kept
  std::vector<bool> was_there_;
  std::vector<std::unique_ptr<GradientHook>> hooks_;  ///< refer to this object
  bool is_in_step_ = false;
};

}  // namespace ddprun::torch
