// Averages the gradients of a module over the workers during the backward pass. Implements
// DistributedDataParallel, independently of the module's forward(). A backward pass begins a step
// with the first complete gradient and returns when all are averaged; each parameter's grad() is a
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
  /// reduced. Blocks; throws Error{Errc::usage} with the parameter and the ranks if names, types or
  /// dimensions differ, and for a module without parameters that require a gradient. The module
  /// must outlive this object and keep its tensors and their memory, and frozen parameters must
  /// stay frozen: call to(), load(), register_parameter() and the like before.
  ModuleReducer(const ::torch::nn::Module& module, const ProcessGroup& group,
                const ReducerOptions& options = ddp_defaults());
  ModuleReducer(const ModuleReducer&) = delete;
  ModuleReducer& operator=(const ModuleReducer&) = delete;
  /// Frees the memory of gradients, which become undefined. During a backward pass, after an
  /// exception, also aborts the group, so that the other ranks do not wait for this one.
  ~ModuleReducer();

  /// To be called before a forward pass. Does nothing where no gradients are recorded
  /// (torch::NoGradGuard), so one rank alone may evaluate. Several forward passes may precede a
  /// backward pass.
  void begin_forward();

  /// Sets whether the backward passes of later forward passes average gradients; otherwise they
  /// accumulate on this rank, and the next averaging pass averages the sums.
  void set_averaging(bool averages);
  /// Returns the value of the last set_averaging(); true initially.
  bool is_averaging() const;

  /// Blocks until the gradients of the last backward pass are averaged, and throws its failures. On
  /// a device, backward() returns before that; call this before writing a checkpoint.
  void synchronise(Deadline deadline = Deadline::never());

  /// Aborts the group: its calls throw with `reason` on all ranks.
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
