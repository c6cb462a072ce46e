// What DistributedDataParallel does with a module, whatever its forward() looks like: averages the
// gradients of its parameters over the workers while the backward pass goes on. A backward pass
// begins a step with the first gradient that is complete, and returns when all are averaged; they
// lie in the reducer's buckets, of which each parameter's grad() is a view. One thread at a time
// drives it; hooks may be called by LibTorch's own.
//
// On CUDA devices all is done on the group's stream (ProcessGroup::set_stream(); at first the
// default stream, as is LibTorch's), and the host waits for nothing there.
#pragma once

#include <ddprun/gradient_reducer.hpp>
#include <ddprun/process_group.hpp>

#include <torch/nn/module.h>

#include <functional>
#include <memory>

namespace ddprun::torch {

/// The reducer's options as PyTorch's DDP has them: buffers are broadcast before each forward pass.
ReducerOptions ddp_defaults();

/// Averages the gradients of a module; DistributedDataParallel is made of it.
class ModuleReducer {
 public:
  /// All workers get rank 0's parameters and buffers. Parameters that require no gradient are
  /// not reduced. Blocks; throws Error{Errc::usage} naming the parameter and the ranks where they
  /// differ in names, types or dimensions, and for a module in which nothing requires a gradient.
  /// The module must outlive this object. Its tensors must stay the same and where they are, and
  /// those that require no gradient now must not later: to(), load(), register_parameter() and the
  /// like come before.
  ModuleReducer(const ::torch::nn::Module& module, const ProcessGroup& group,
                const ReducerOptions& options = ddp_defaults());
  ModuleReducer(const ModuleReducer&) = delete;
  ModuleReducer& operator=(const ModuleReducer&) = delete;
  /// Gradients are gone afterwards, as their memory is. Within a backward pass, by an exception,
  /// it aborts the group, so that the other ranks do not wait for this one.
  ~ModuleReducer();

  /// A forward pass is about to begin. Does nothing where no gradients are recorded
  /// (torch::NoGradGuard): one rank alone may evaluate. Before a backward pass there may be
  /// several.
  void begin_forward();

  /// Whether the backward passes of the forward passes from now on average gradients; if not they
  /// add up on this rank. The next that does averages the sums.
  void set_averaging(bool averages);
  /// What set_averaging() was told last; true at first.
  bool is_averaging() const;

  /// Blocks until the gradients of the last backward pass are averaged. Throws what that failed
  /// with. Where they are on a device, backward() returns before; so this comes before anything
  /// that was made of them is kept, as in a checkpoint.
  void synchronise(Deadline deadline = Deadline::never());

  /// Ends the calls of the group on all its ranks, which throw with `reason`: for who cannot go on.
  void abort(const std::string& reason);

  /// Leaves all gradients undefined, which is faster than to fill them with zeros.
  void zero_grad();

  /// See GradientReducer::join().
  void join(const std::function<void()>& after_step = {});

  /// The reducer behind it, for its timelines and statistics.
  const GradientReducer& reducer() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun::torch
