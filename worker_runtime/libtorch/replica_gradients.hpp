// The gradients of one replica's parameters, in memory that is theirs alone and used again in each
// step. Memory that is new to the process costs a page fault for every 4 KiB, and what threads free
// the C library gives back to the system sooner than what the first thread frees. LibTorch itself
// may leave two parameters gradients in one piece of memory.
#pragma once

#include "worker_runtime/libtorch/gradient_hook.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace ddprun::torch {

class ReplicaGradients {
 public:
  /// Of parameters no two of which are the same.
  explicit ReplicaGradients(std::vector<at::Tensor> parameters);
  ReplicaGradients(const ReplicaGradients&) = delete;
  ReplicaGradients& operator=(const ReplicaGradients&) = delete;

  std::size_t size() const { return parameters_.size(); }

  /// The parameter's own, undefined if no backward pass has come to it.
  at::Tensor& operator[](std::size_t parameter) { return parameters_[parameter].mutable_grad(); }

  at::Device device_of(std::size_t parameter) const { return parameters_[parameter].device(); }

  /// As long as it lives backward passes are a step's. They add to what is there, or find nothing.
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
  /// Moves a gradient that the step has made into the memory of an earlier one.
  void keep(std::size_t parameter);

  /// For parameters that were moved, or require a gradient only now.
  void renew_hooks();

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> kept_;
  std::vector<bool> was_there_;  ///< when the step began: the program's, if it is not kept
  std::vector<std::unique_ptr<GradientHook>> hooks_;  ///< which refer to this object
  bool is_in_step_ = false;
};

}  // namespace ddprun::torch
