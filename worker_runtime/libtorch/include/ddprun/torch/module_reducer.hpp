// Averages the gradients of a module over the workers during the backward pass. Implements
// DistributedDataParallel independently of the module's forward(). A backward pass begins a step
// with the first complete gradient and returns when all are averaged. Each parameter's grad() is a
// view of a bucket of the reducer. One thread at a time; LibTorch's threads may call the hooks. On
// CUDA devices all work runs on the group's stream (ProcessGroup::set_stream(); by default the
// default stream, like LibTorch's), and the host does not wait for it.
#pragma once

#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>

#include <torch/nn/module.h>

#include <functional>
#include <memory>

namespace ddprun::torch {

/// Returns the defaults of PyTorch's DDP: buffers are broadcast before each forward pass.
ReducerOptions ddp_defaults();

/// Averages the gradients of a module.
class ModuleReducer {
 public:
  /// Broadcasts rank 0's parameters and buffers. Parameters that require no gradient are not
  /// reduced. Blocks. Throws Error{Errc::usage} with the parameter and the ranks if names, types or
  /// dimensions differ, and for modules without parameters that require gradients. The module must
  /// outlive this object and keep its tensors and their memory; frozen parameters must stay frozen.
  /// Call to(), load(), register_parameter() and similar functions before.
  ModuleReducer(const ::torch::nn::Module& module, const ProcessGroup& group,
                const ReducerOptions& options = ddp_defaults());
  ModuleReducer(const ModuleReducer&) = delete;
  ModuleReducer& operator=(const ModuleReducer&) = delete;
  /// Frees the memory of gradients, which become undefined. After an exception in a backward pass,
  /// also aborts the group, so that the other ranks do not wait for this rank.
  ~ModuleReducer();

  /// Must be called before each forward pass. Does nothing if no gradients are recorded
  /// (torch::NoGradGuard), so a single rank may evaluate. Several forward passes may precede a
  /// backward pass.
  void begin_forward();

  /// Sets whether the backward passes of later forward passes average gradients. If not, they
  /// accumulate on this rank, and the next averaging pass averages the sums.
  void set_averaging(bool averages);
  /// Returns the value of the last set_averaging(); true initially.
  bool is_averaging() const;

  /// Blocks until the gradients of the last backward pass are averaged, and throws failures. Call
  /// it before writing a checkpoint: on a device, backward() returns before the averages are ready.
  void synchronise(Deadline deadline = Deadline::never());

  /// Aborts the group. Calls of the group then throw with `reason` on all ranks.
  void abort(const std::string& reason);

  /// Sets all gradients to undefined, which is faster than filling them with zeros.
  void zero_grad();

  /// See GradientReducer::join().
  void join(const std::function<void()>& after_step = {});

  /// Returns the reducer, for its timelines and statistics.
  const GradientReducer& reducer() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::torch
