// Training of a LibTorch module by several threads of this process. Each thread has a copy of the
// module, a device and its rows of a batch. On the CPU, copies share the module's parameters, so
// nothing is copied before a step; on other devices, parameters are copied in each step. For CPUs
// and for several GPUs in one process; DistributedDataParallel overlaps communication and tolerates
// failures.
#pragma once

#include <ddprun/data_parallel.hpp>
#include <ddprun/error.hpp>
#include <ddprun/torch/pipeline.hpp>

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::torch {

/// Devices and threads of the replicas.
struct DataParallelOptions {
  /// Devices of the replicas; the first is the device of the module.
  std::vector<at::Device> devices;
  /// Device of outputs and losses; empty: the first replica's device.
  std::optional<at::Device> output_device = {};
  /// Number of LibTorch's compute threads per replica; 0: an equal share of the current number, but
  /// at least 1.
  int compute_threads = 0;
};

/// Implementation of DataParallel, independent of the module's type.
class ModuleReplicas {
 public:
  /// A replica.
  struct One {
    std::shared_ptr<::torch::nn::Module> module;  ///< owns the parameters
    StageForward forward;                         ///< calls the module's forward()
  };

  /// `replicas` must have equal tensors and as many elements as `devices`; the first is the module
  /// itself. Throws Error{Errc::usage}.
  ModuleReplicas(std::vector<One> replicas, const DataParallelOptions& options);
  ModuleReplicas(const ModuleReplicas&) = delete;
  ModuleReplicas& operator=(const ModuleReplicas&) = delete;
  ~ModuleReplicas();

  /// See DataParallel::train().
  at::Tensor train(const at::Tensor& input, const at::Tensor& target, const MeanLoss& loss);
  /// See DataParallel::forward().
  at::Tensor forward(const at::Tensor& input);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Matches classes made by TORCH_MODULE.
template <typename Module>
concept ModuleHolder = requires {
  typename Module::ContainedType;
};

/// `Module` is a module holder whose forward() takes and returns one tensor with rows as the first
/// dimension. The module must not be wrapped in DistributedDataParallel, which would average
/// gradients too early.
template <ModuleHolder Module>
class DataParallel {
 public:
  /// Copies the module with clone(), which classes derived from torch::nn::Cloneable have, or with
  /// `make`, which returns a module of the same structure with arbitrary values.
  DataParallel(Module module, const DataParallelOptions& options,
               const std::function<Module()>& make = {})
      : module_(module), replicas_(replicas_of(module, options, make), options) {}

  /// Adds the gradients of the mean of `loss` over the rows of `input` and `target` to the module's
  /// gradients. Returns that mean without a graph. Random numbers (dropout) come from LibTorch's
  /// generator of each device, in unspecified order. Rethrows exceptions of a replica; the object
  /// can then only be destroyed.
  at::Tensor train(const at::Tensor& input, const at::Tensor& target, const MeanLoss& loss) {
    return replicas_.train(input, target, loss);
  }

  /// Returns the module's output for all rows of `input`, without gradients.
  at::Tensor forward(const at::Tensor& input) { return replicas_.forward(input); }

  /// Returns the module, whose parameters are those of replica 0.
  Module& module() { return module_; }

 private:
  static ModuleReplicas::One one_of(Module module) {
    if (!module) throw Error(Errc::usage, "DataParallel: a module holder is empty");
    return {module.ptr(),
            [module](const at::Tensor& input) mutable { return module->forward(input); }};
  }

  static std::vector<ModuleReplicas::One> replicas_of(const Module& module,
                                                      const DataParallelOptions& options,
                                                      const std::function<Module()>& make) {
    using Implementation = typename Module::ContainedType;
    std::vector<ModuleReplicas::One> replicas{one_of(module)};
    while (replicas.size() < options.devices.size()) {
      replicas.push_back(one_of(
          make ? make() : Module(std::dynamic_pointer_cast<Implementation>(module->clone()))));
    }
    return replicas;
  }

  Module module_;
  ModuleReplicas replicas_;
};

}  // namespace ddprun::torch
