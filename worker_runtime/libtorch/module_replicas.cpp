#include "worker_runtime/libtorch/module_tensors.hpp"
#include "worker_runtime/libtorch/replica_gradients.hpp"
#include <ddprun/error.hpp>
#include <ddprun/torch/data_parallel.hpp>

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <torch/cuda.h>

#include <algorithm>
#include <string>

namespace ddprun::torch {

namespace {

using ::torch::nn::Module;

/// Below this size, one thread is at least as fast as several.
constexpr std::int64_t kSharedElementsMin = 16384;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Errc::usage, "DataParallel: " + what);
}

using NamedTensors = ::torch::OrderedDict<std::string, at::Tensor>;

/// Returns true if names, shapes and types are equal and in the same order.
bool is_alike(const NamedTensors& ours, const NamedTensors& theirs) {
  const auto& our_items = ours.items();
  const auto& their_items = theirs.items();
  return std::equal(our_items.begin(), our_items.end(), their_items.begin(), their_items.end(),
                    [](const auto& one, const auto& other) {
                      return one.key() == other.key() &&
                             one.value().sizes() == other.value().sizes() &&
                             one.value().scalar_type() == other.value().scalar_type();
                    });
}

/// Returns, for each parameter in the order of definition, the index of the first equal one.
std::vector<std::size_t> ties_of(const std::vector<at::Tensor>& parameters) {
  std::vector<std::size_t> firsts;
  for (const auto& parameter : parameters) {
    const auto first = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const auto& other) { return other.is_same(parameter); });
    firsts.push_back(static_cast<std::size_t>(first - parameters.begin()));
  }
  return firsts;
}

/// Returns each parameter once.
std::vector<at::Tensor> distinct_parameters(const Module& module) {
  const auto parameters = module.parameters();
  const auto ties = ties_of(parameters);
  std::vector<at::Tensor> distinct;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (ties[i] == i) distinct.push_back(parameters[i]);
  return distinct;
}

void require_alike(const Module& first, const Module& other) {
  if (!is_alike(first.named_parameters(), other.named_parameters()))
    refuse("a replica has other parameters than the module");
  if (!is_alike(first.named_buffers(), other.named_buffers()))
    refuse("a replica has other buffers than the module");
  if (first.modules().size() != other.modules().size())
    refuse("a replica has other submodules than the module");
  if (ties_of(first.parameters()) != ties_of(other.parameters())) {
    refuse(
        "parameters that are one in the module are not in a replica, or the reverse: clone() does "
        "not keep them so, a function that makes the module does");
  }
}

void require_apart(const Module& one, const Module& other) {
  const auto ours = identities_of(one);
  const auto theirs = identities_of(other);
  if (std::find_first_of(ours.begin(), ours.end(), theirs.begin(), theirs.end()) != ours.end()) {
    refuse(
        "two replicas share a parameter or buffer: the function that makes a module must create "
        "all of its tensors");
  }
}

void require_rows(const at::Tensor& input, const at::Tensor& target) {
  if (!input.defined() || input.dim() == 0 || input.size(0) == 0) refuse("the input has no rows");
  if (!target.defined() || target.dim() == 0 || target.size(0) != input.size(0)) {
    refuse("the input has " + std::to_string(input.size(0)) + " rows, the target " +
           (target.defined() && target.dim() > 0 ? std::to_string(target.size(0)) : "none"));
  }
}

at::Tensor part_of(const at::Tensor& whole, const Rows& rows, at::Device device) {
  return whole
      .narrow(0, static_cast<std::int64_t>(rows.first), static_cast<std::int64_t>(rows.count))
      .to(device);
}

/// Returns true if the tensors have the same memory layout without gaps.
bool are_alike_in_memory(const at::Tensor& sum, const at::Tensor& other) {
  return sum.layout() == at::kStrided && other.layout() == at::kStrided && sum.is_cpu() &&
         other.is_cpu() && sum.sizes() == other.sizes() && sum.strides() == other.strides() &&
         sum.is_non_overlapping_and_dense();
}

at::Tensor share_of(const at::Tensor& tensor, const Rows& share) {
  return tensor.as_strided({tensor.numel()}, {1})
      .narrow(0, static_cast<std::int64_t>(share.first), static_cast<std::int64_t>(share.count));
}

/// Adds this replica's share of the elements. Small tensors, and tensors with different layouts,
/// are added by one thread.
void add_share(at::Tensor& sum, const at::Tensor& other, const Replica& replica, bool is_its_turn) {
  if (sum.numel() >= kSharedElementsMin && are_alike_in_memory(sum, other)) {
    const Rows share = replica.rows(static_cast<std::size_t>(sum.numel()));
    share_of(sum, share).add_(share_of(other, share));
  } else if (is_its_turn) {
    sum.add_(other.to(sum.device()));
  }
}

/// Copies the first replica's tensor, with its type in case to() has changed it.
void copy_values(at::Tensor& own, const at::Tensor& first) {
  if (own.scalar_type() != first.scalar_type()) own.set_data(own.detach().to(first.scalar_type()));
  own.copy_(first);
}

/// Throws a short message; LibTorch's message about a missing device has dozens of lines.
void require_there(at::Device device) {
  if (!device.is_cuda()) return;
  const auto count = static_cast<int>(::torch::cuda::device_count());
  if (device.index() < count && count > 0) return;
  refuse("device " + device.str() + " is not there: LibTorch " +
         (count == 0 ? "has no CUDA devices here (it is made for CPUs, there is no driver, or none "
                       "is visible)"
                     : "has " + std::to_string(count) + " here, counted from 0"));
}

/// Copies the mode of each submodule. Parents come first, since train() also sets their children.
void copy_modes(Module& own, const Module& first) {
  const auto theirs = first.modules();
  const auto ours = own.modules();
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i]->train(theirs[i]->is_training());
}

}  // namespace

class ModuleReplicas::Impl {
 public:
  Impl(std::vector<One> replicas, const DataParallelOptions& options)
      : replicas_(std::move(replicas)),
        devices_(options.devices),
        output_device_(options.output_device.value_or(options.devices.front())),
        identities_(identities_of(*replicas_.front().module)),
        threads_(static_cast<int>(replicas_.size())) {
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      require_alike(*replicas_.front().module, *replicas_[i].module);
      for (std::size_t j = 0; j < i; ++j) require_apart(*replicas_[j].module, *replicas_[i].module);
      replicas_[i].module->to(devices_[i]);
      gradients_.push_back(
          std::make_unique<ReplicaGradients>(distinct_parameters(*replicas_[i].module)));
    }
    share_compute_threads(options.compute_threads);
  }

  at::Tensor train(const at::Tensor& input, const at::Tensor& target, const MeanLoss& loss);
  at::Tensor forward(const at::Tensor& input);

 private:
  static std::size_t index_of(const Replica& replica) {
    return static_cast<std::size_t>(replica.index);
  }

  void share_compute_threads(int each);
  void require_same_tensors() const;
  void copy_state(Replica& replica);
  void add_gradients(Replica& replica);
  void adopt_first(std::size_t parameter);

  std::vector<One> replicas_;
  std::vector<std::unique_ptr<ReplicaGradients>> gradients_;
  std::vector<at::Device> devices_;
  at::Device output_device_;
  std::vector<const void*> identities_;  ///< tensors of the first replica
  ReplicaThreads threads_;
};

/// LibTorch initialises a thread's setting from the latest one when the thread first computes or
/// reads it. So each thread reads its setting before it sets it, and the calling thread restores
/// its own.
void ModuleReplicas::Impl::share_compute_threads(int each) {
  const int all = at::get_num_threads();
  const int share = each > 0 ? each : std::max(1, all / threads_.count());
  threads_.apply([&](Replica& replica) {
    at::get_num_threads();
    // One after the other, since LibTorch also stores each setting globally.
    for (int turn = 0; turn < replica.count; ++turn) {
      if (turn == replica.index) at::set_num_threads(share);
      replica.group.barrier().wait();
    }
  });
  at::set_num_threads(all);
}

/// Copies the module's current parameters and buffers. Returns when all ranks have them.
void ModuleReplicas::Impl::copy_state(Replica& replica) {
  const at::NoGradGuard no_graph;
  const Module& first = *replicas_.front().module;
  Module& own = *replicas_[index_of(replica)].module;
  if (replica.index > 0) {
    copy_modes(own, first);
    const auto theirs = first.parameters();
    auto ours = own.parameters();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ours[i].set_requires_grad(theirs[i].requires_grad());
      if (ours[i].device() == theirs[i].device()) {
        ours[i].set_data(theirs[i].detach());
      } else {
        copy_values(ours[i], theirs[i]);
      }
    }
    const auto their_buffers = first.buffers();
    auto our_buffers = own.buffers();
    for (std::size_t i = 0; i < our_buffers.size(); ++i)
      copy_values(our_buffers[i], their_buffers[i]);
  }
  replica.group.barrier().wait();
}

at::Tensor ModuleReplicas::Impl::train(const at::Tensor& input, const at::Tensor& target,
                                       const MeanLoss& loss) {
  require_rows(input, target);
  require_same_tensors();
  std::vector<at::Tensor> shares(replicas_.size());
  const at::ThreadLocalState callers;  // autocast and other settings
  threads_.apply([&](Replica& replica) {
    const at::ThreadLocalStateGuard as_caller(callers);
    const at::AutoGradMode records_graph(true);
    copy_state(replica);
    const ReplicaGradients::Step step(*gradients_[index_of(replica)],
                                      /*adds=*/replica.index == 0);
    const Rows rows = replica.rows(static_cast<std::size_t>(input.size(0)));
    const auto device = devices_[index_of(replica)];
    if (rows.count > 0) {
      const at::Tensor output = replicas_[index_of(replica)].forward(part_of(input, rows, device));
      const at::Tensor share =
          loss(output, part_of(target, rows, device)) *
          (static_cast<double>(rows.count) / static_cast<double>(input.size(0)));
      share.backward();
      shares[index_of(replica)] = share.detach().to(output_device_);
    }
    replica.group.barrier().wait();
    add_gradients(replica);
  });
  at::Tensor mean = shares.front();
  for (std::size_t i = 1; i < shares.size() && shares[i].defined(); ++i) mean = mean + shares[i];
  return mean;
}

/// New tensors of the module would be missing in the other replicas.
void ModuleReplicas::Impl::require_same_tensors() const {
  if (identities_of(*replicas_.front().module) == identities_) return;
  refuse(
      "the module has got or lost parameters or buffers since DataParallel was made: "
      "register_module(), replace_module() and the like must come before");
}

/// Adds gradients in the order of the replicas.
void ModuleReplicas::Impl::add_gradients(Replica& replica) {
  const at::NoGradGuard no_graph;
  const auto is_its_turn = [&](std::size_t i) { return i % replicas_.size() == index_of(replica); };
  ReplicaGradients& sums = *gradients_.front();
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (is_its_turn(i) && !sums[i].defined()) adopt_first(i);
  replica.group.barrier().wait();
  for (std::size_t number = 1; number < gradients_.size(); ++number) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const at::Tensor& other = (*gradients_[number])[i];
      if (other.defined()) add_share(sums[i], other, replica, is_its_turn(i));
    }
  }
}

/// If the first replica has no gradient, uses that of the next replica that has one.
void ModuleReplicas::Impl::adopt_first(std::size_t parameter) {
  ReplicaGradients& sums = *gradients_.front();
  for (std::size_t number = 1; number < gradients_.size(); ++number) {
    at::Tensor& other = (*gradients_[number])[parameter];
    if (!other.defined()) continue;
    sums[parameter] = other.to(sums.device_of(parameter));
    other.reset();
    return;
  }
}

at::Tensor ModuleReplicas::Impl::forward(const at::Tensor& input) {
  if (!input.defined() || input.dim() == 0 || input.size(0) == 0) refuse("the input has no rows");
  require_same_tensors();
  std::vector<at::Tensor> outputs(replicas_.size());
  const at::ThreadLocalState callers;
  threads_.apply([&](Replica& replica) {
    const at::ThreadLocalStateGuard as_caller(callers);
    copy_state(replica);
    const at::NoGradGuard no_graph;
    const Rows rows = replica.rows(static_cast<std::size_t>(input.size(0)));
    if (rows.count == 0) return;
    outputs[index_of(replica)] = replicas_[index_of(replica)]
                                     .forward(part_of(input, rows, devices_[index_of(replica)]))
                                     .to(output_device_);
  });
  std::erase_if(outputs, [](const at::Tensor& output) { return !output.defined(); });
  return at::cat(outputs);
}

ModuleReplicas::ModuleReplicas(std::vector<One> replicas, const DataParallelOptions& options) {
  if (options.devices.empty()) refuse("there are no devices");
  if (replicas.size() != options.devices.size()) {
    refuse(std::to_string(replicas.size()) + " replicas for " +
           std::to_string(options.devices.size()) + " devices");
  }
  for (const auto device : options.devices) require_there(device);
  if (options.output_device) require_there(*options.output_device);
  impl_ = std::make_unique<Impl>(std::move(replicas), options);
}
ModuleReplicas::~ModuleReplicas() = default;

at::Tensor ModuleReplicas::train(const at::Tensor& input, const at::Tensor& target,
                                 const MeanLoss& loss) {
  return impl_->train(input, target, loss);
}
at::Tensor ModuleReplicas::forward(const at::Tensor& input) {
  return impl_->forward(input);
}

}  // namespace ddprun::torch
