// A LibTorch module trained by several threads of this process: each has a copy of the module, a
// device and its rows of a batch. On the CPU the copies share the module's parameters, so nothing
// is copied before a step; on other devices they get them anew for each. For CPUs and what a
// program does with several GPUs by itself; DistributedDataParallel overlaps more and survives
// more.
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

/// Where the replicas of a module are, and how they compute.
struct DataParallelOptions {
  /// Of the replicas, the module's own first.
  std::vector<at::Device> devices;
  /// Where outputs and losses are; the first replica's if nothing.
  std::optional<at::Device> output_device = {};
  /// Threads with which LibTorch computes for each replica; 0 is an even share of those that it has
  /// now, at least 1.
  int compute_threads = 0;
};

/// What DataParallel does with modules, whatever their type.
class ModuleReplicas {
 public:
  /// One replica.
  struct One {
    std::shared_ptr<::torch::nn::Module> module;  ///< owner of the parameters
    StageForward forward;                         ///< calls the module's forward()
  };

  /// `replicas` are alike, in number those of the devices; the first is the module itself. Throws
  /// Error{Errc::usage}.
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

/// What TORCH_MODULE makes of a class, rather than the class itself.
template <typename Module>
concept ModuleHolder = requires {
  typename Module::ContainedType;
};

/// `Module` is a module holder, whose forward() takes and returns one tensor, rows first in both.
/// Not for a module that is in a DistributedDataParallel, which would average too early.
template <ModuleHolder Module>
class DataParallel {
 public:
  /// Copies are made by clone(), which a module has that derives from torch::nn::Cloneable; or by
  /// `make`, which returns a module like this one, with any values.
  DataParallel(Module module, const DataParallelOptions& options,
               const std::function<Module()>& make = {})
      : module_(module), replicas_(replicas_of(module, options, make), options) {}

  /// Adds to the gradients of the module's parameters those of the mean of `loss` over the rows of
  /// `input` and `target`. Returns that mean, without a graph. Random numbers (dropout) come from
  /// LibTorch's one generator for a device, in no fixed order. Throws what a replica threw; after
  /// that the object can only be destroyed.
  at::Tensor train(const at::Tensor& input, const at::Tensor& target, const MeanLoss& loss) {
    return replicas_.train(input, target, loss);
  }

  /// The module's output for all rows of `input`; no gradients.
  at::Tensor forward(const at::Tensor& input) { return replicas_.forward(input); }

  /// The module, whose parameters are those of replica 0.
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
