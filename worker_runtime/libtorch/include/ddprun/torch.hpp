// DDP for programs that train with LibTorch: init() where torch.distributed has
// init_process_group(), DistributedDataParallel around a module, DistributedSampler for its data
// and checkpoints of what was trained. Everything else is LibTorch's and the programmer's own.
#pragma once

#include <ddprun/error.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/torch/as_buffer.hpp>
#include <ddprun/torch/checkpoint.hpp>
#include <ddprun/torch/distributed_sampler.hpp>
#include <ddprun/torch/module_reducer.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddprun::torch {

/// Meets the other workers of this run, as the environment names them, and blocks until all are
/// there. A program that was started alone is a group of one. Where nobody comes for some seconds
/// it says for whom it waits, on standard error unless `options` have a log. For more about this
/// worker (local rank, restarts, ...) and for failures in the agent's report see
/// <ddprun/worker.hpp>.
ProcessGroup init(const GroupOptions& options = {});

/// While it lives, backward passes only add up gradients on this rank (PyTorch's no_sync), unless
/// `only_adds` is false. Their forward passes belong inside, too.
class NoSync {
 public:
  /// `reducer` must outlive this object.
  explicit NoSync(ModuleReducer& reducer, bool only_adds = true)
      : reducer_(reducer), before_(reducer.is_averaging()) {
    if (only_adds) reducer_.set_averaging(false);
  }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;
  ~NoSync() { reducer_.set_averaging(before_); }

 private:
  ModuleReducer& reducer_;
  bool before_;
};

/// A class derived from torch::nn::Module, rather than a handle of an object.
template <typename Module>
concept ModuleClass = std::is_base_of_v<::torch::nn::Module, Module>;

/// A module whose gradients are the average over all workers when backward() returns. `Module` is a
/// class derived from torch::nn::Module, whose object must outlive this one; or a module holder
/// (TORCH_MODULE) or std::shared_ptr, of which a copy is kept.
template <typename Module>
class DistributedDataParallel {
 public:
  /// See ModuleReducer, whose errors it throws. Blocks until all workers are here.
  DistributedDataParallel(Module& module, const ProcessGroup& group,
                          const ReducerOptions& options = ddp_defaults()) requires
      ModuleClass<Module> : module_(&module),
                            reducer_(std::make_unique<ModuleReducer>(module, group, options)) {}
  /// For a module holder or std::shared_ptr. Throws Error{Errc::usage} for an empty one, too.
  DistributedDataParallel(
      Module module, const ProcessGroup& group,
      const ReducerOptions& options = ddp_defaults()) requires(!ModuleClass<Module>)
      : module_(std::move(not_empty(module))),
        reducer_(std::make_unique<ModuleReducer>(*module_, group, options)) {}

  /// The module's forward().
  template <typename... Arguments>
  decltype(auto) forward(Arguments&&... arguments) {
    reducer_->begin_forward();
    return module_->forward(std::forward<Arguments>(arguments)...);
  }
  /// The same as forward().
  template <typename... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// The module itself, for what concerns this rank alone.
  auto& module() { return *module_; }

  /// For the optimizer.
  std::vector<at::Tensor> parameters() const { return module_->parameters(); }

  /// `const auto guard = model.no_sync();`, or, in a loop, `model.no_sync(!is_last)`.
  NoSync no_sync(bool only_adds = true) { return NoSync(*reducer_, only_adds); }

  /// Before a checkpoint is written: blocks until the last backward pass' gradients are averaged,
  /// and throws what that failed with. Where they are on a device, backward() returns before.
  void synchronise(Deadline deadline = Deadline::never()) { reducer_->synchronise(deadline); }

  /// In place of the optimizer's, and faster: leaves all gradients undefined.
  void zero_grad() { reducer_->zero_grad(); }

  /// This rank has no more batches; others may have. With UnevenInputs.
  void join(const std::function<void()>& after_step = {}) { reducer_->join(after_step); }

  /// Buckets, times, which parameters were used.
  const GradientReducer& reducer() const { return reducer_->reducer(); }

 private:
  static Module& not_empty(Module& module) {
    if (module) return module;
    throw Error(Errc::usage, "DistributedDataParallel: the module holder or pointer is empty");
  }

  std::conditional_t<ModuleClass<Module>, Module*, Module> module_;
  std::unique_ptr<ModuleReducer> reducer_;
};

// clang does not tell the two constructors apart by their constraints when it deduces `Module`.
template <typename Module>
DistributedDataParallel(Module, const ProcessGroup&) -> DistributedDataParallel<Module>;
template <typename Module>
DistributedDataParallel(Module, const ProcessGroup&, const ReducerOptions&)
    -> DistributedDataParallel<Module>;

}  // namespace ddprun::torch
