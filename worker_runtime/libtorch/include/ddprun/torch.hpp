// Distributed data parallel training for programs that use LibTorch. init() corresponds to
// torch.distributed.init_process_group(); DistributedDataParallel wraps a module.
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

/// Connects to the other workers given by the environment. Blocks until all have connected. A
/// program started without ddprun forms a group of one rank. If workers are missing after some
/// seconds, logs their ranks to standard error or to the log of `options`. See <ddprun/worker.hpp>
/// for this worker's data (local rank, restarts, ...) and for failures in the agent's report.
ProcessGroup init(const GroupOptions& options = {});

/// While it exists, backward passes accumulate gradients on this rank without averaging (PyTorch's
/// no_sync), unless `only_adds` is false. Must enclose their forward passes, too.
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

/// Matches classes derived from torch::nn::Module, but not module holders.
template <typename Module>
concept ModuleClass = std::is_base_of_v<::torch::nn::Module, Module>;

/// A module whose gradients are averages over all workers when backward() returns. `Module` is a
/// class derived from torch::nn::Module, whose object must outlive this object; or a module holder
/// (TORCH_MODULE) or std::shared_ptr, which is copied.
template <typename Module>
class DistributedDataParallel {
 public:
  /// Blocks until all workers have called it. See ModuleReducer for behaviour and errors.
  DistributedDataParallel(Module& module, const ProcessGroup& group,
                          const ReducerOptions& options = ddp_defaults()) requires
      ModuleClass<Module> : module_(&module),
                            reducer_(std::make_unique<ModuleReducer>(module, group, options)) {}
  /// For a module holder or std::shared_ptr. Also throws Error{Errc::usage} if it is empty.
  DistributedDataParallel(
      Module module, const ProcessGroup& group,
      const ReducerOptions& options = ddp_defaults()) requires(!ModuleClass<Module>)
      : module_(std::move(not_empty(module))),
        reducer_(std::make_unique<ModuleReducer>(*module_, group, options)) {}

  /// Calls the module's forward().
  template <typename... Arguments>
  decltype(auto) forward(Arguments&&... arguments) {
    reducer_->begin_forward();
    return module_->forward(std::forward<Arguments>(arguments)...);
  }
  /// Like forward().
  template <typename... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  /// Returns the wrapped module.
  auto& module() { return *module_; }

  /// Returns the module's parameters, for the optimizer.
  std::vector<at::Tensor> parameters() const { return module_->parameters(); }

  /// Returns a guard: `const auto guard = model.no_sync();`; in a loop, `model.no_sync(!is_last)`.
  NoSync no_sync(bool only_adds = true) { return NoSync(*reducer_, only_adds); }

  /// Blocks until the gradients of the last backward pass are averaged, and throws failures. Call
  /// it before writing a checkpoint: on a device, backward() returns before the averages are ready.
  void synchronise(Deadline deadline = Deadline::never()) { reducer_->synchronise(deadline); }

  /// Sets all gradients to undefined. Use it instead of the optimizer's slower zero_grad().
  void zero_grad() { reducer_->zero_grad(); }

  /// Call this when this rank has no further batches but others may have. Requires UnevenInputs.
  void join(const std::function<void()>& after_step = {}) { reducer_->join(after_step); }

  /// Returns the reducer, which has the buckets, times and used parameters.
  const GradientReducer& reducer() const { return reducer_->reducer(); }

 private:
  static Module& not_empty(Module& module) {
    if (module) return module;
    throw Error(Errc::usage, "DistributedDataParallel: the module holder or pointer is empty");
  }

  std::conditional_t<ModuleClass<Module>, Module*, Module> module_;
  std::unique_ptr<ModuleReducer> reducer_;
};

// clang cannot distinguish the two constructors by their constraints when it deduces `Module`.
template <typename Module>
DistributedDataParallel(Module, const ProcessGroup&) -> DistributedDataParallel<Module>;
template <typename Module>
DistributedDataParallel(Module, const ProcessGroup&, const ReducerOptions&)
    -> DistributedDataParallel<Module>;

}  // namespace ddprun::torch
