// The gradients of one replica's parameters, in memory that is used again in each step. Memory that
// is new to the process costs a page fault for every 4 KiB, and what threads free the C library
// gives back to the system sooner than what the first thread frees.
#pragma once

#include "worker_runtime/libtorch/gradient_hook.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace ddprun::torch {

class ReplicaGradients {
 public:
  explicit ReplicaGradients(std::vector<at::Tensor> parameters);

  std::size_t size() const { return parameters_.size(); }

  /// The parameter's own, undefined if no backward pass has come to it.
  at::Tensor& operator[](std::size_t parameter) { return parameters_[parameter].mutable_grad(); }

  at::Device device_of(std::size_t parameter) const { return parameters_[parameter].device(); }

  /// Before each backward pass, which adds to what is there or finds nothing.
  void begin(bool adds);

 private:
  /// Moves a gradient that the pass has made into the memory of an earlier one.
  void keep(std::size_t parameter);

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> kept_;
  std::vector<bool> is_new_;         ///< if there is one, this pass has made it
  std::vector<GradientHook> hooks_;  ///< which refer to this object
};

}  // namespace ddprun::torch
