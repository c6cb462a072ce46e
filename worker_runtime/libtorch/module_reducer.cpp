#include "worker_runtime/libtorch/gradient_hook.hpp"
#include "worker_runtime/libtorch/module_tensors.hpp"
#include "worker_runtime/libtorch/reduced_module.hpp"
#include <ddprun/error.hpp>
#include <ddprun/torch.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <optional>
#include <utility>

namespace ddprun::torch {

namespace {

/// Maximum number of parameter names in the error about missing gradients.
constexpr std::size_t kNamesMax = 10;

/// Interval, in forward passes, of checks that the module's tensors are the same. Listing them
/// takes 0.1 ms for a ResNet-50, since LibTorch builds their names.
constexpr std::int64_t kPassesPerCheck = 16;

std::string in_quotes(const std::string& name) {
  return "\"" + name + "\"";
}

/// A buffer of the module; the reference keeps its memory.
struct Kept {
  NamedTensor buffer;
  const void* values = nullptr;  ///< address at construction, to detect replaced memory
};

/// A parameter with a hook.
struct Watched {
  NamedTensor parameter;
  const void* values = nullptr;  ///< address at construction, to detect replaced memory
  GradientHook hook;
  at::Tensor in_bucket = {};  ///< view of the gradient in its bucket
  bool has_gradient = false;  ///< in this backward pass
};

std::string named(const Watched& watched) {
  return "parameter " + in_quotes(watched.parameter.name);
}

[[noreturn]] void refuse_moved(const std::string& what) {
  refuse_ddp(what + " has been moved: to(), load() and the like must come before");
}

/// Returns true if `gradient` has the memory and strides of `in_bucket`.
bool is_view_of(const at::Tensor& gradient, const at::Tensor& in_bucket) {
  return gradient.defined() && in_bucket.defined() && gradient.layout() == at::kStrided &&
         gradient.data_ptr() == in_bucket.data_ptr();
}

}  // namespace

class ModuleReducer::Impl {
 public:
  Impl(const ::torch::nn::Module& module, const ModuleTensors& tensors, const ProcessGroup& group,
       const ReducerOptions& options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  void begin_forward();
  void zero_grad();
  void join(const std::function<void()>& after_step);

  const GradientReducer& reducer() const { return reducer_; }
  void set_averaging(bool averages) { averages_ = averages; }
  bool is_averaging() const { return averages_; }
  void synchronise(Deadline deadline) {
    as_ddp([&] { reducer_.synchronise(deadline); });
  }
  void abort(const std::string& reason) { group_.abort(reason); }

 private:
  enum class Phase { idle, backward };

  void watch(const NamedTensor& parameter, std::size_t index);
  void lay_out();
  void require_idle() const;
  void require_in_place() const;
  void require_same_tensors() const;
  void take_gradient(std::size_t index, const at::Tensor& gradient);
  void begin_backward();
  void put_into_bucket(Watched& watched) const;
  void end_backward();
  void settle_unused();
  void require_all_gradients() const;
  void set_gradients();
  void mark_ready(std::size_t index);

  const ::torch::nn::Module& module_;
  const std::vector<const void*> identities_;  ///< the module's tensors, kept by the members below
  ProcessGroup group_;
  ReducerOptions options_;
  GradientReducer reducer_;
  bool is_on_device_;
  std::vector<NamedTensor> frozen_;
  std::vector<Watched> watched_;
  std::vector<Kept> buffers_;
  std::size_t layout_ = 0;
  std::int64_t forward_passes_ = 0;
  bool averages_ = true;  ///< for later forward passes
  /// True if the forward passes since the last backward pass average; nullopt without such passes.
  std::optional<bool> prepared_;
  std::mutex mutex_;  ///< hooks of several devices run concurrently
  Phase phase_ = Phase::idle;
  bool is_synchronising_ = true;  ///< in this backward pass
};

ModuleReducer::Impl::Impl(const ::torch::nn::Module& module, const ModuleTensors& tensors,
                          const ProcessGroup& group, const ReducerOptions& options)
    : module_(module),
      identities_(identities_of(module)),
      group_(group),
      options_(options),
      reducer_(make_reducer(module, tensors, group, options)),
      is_on_device_(tensors.parameters.front().tensor.is_cuda()),
      frozen_(tensors.frozen) {
  watched_.reserve(tensors.parameters.size());
  for (const auto& parameter : tensors.parameters) watch(parameter, watched_.size());
  for (const auto& buffer : tensors.buffers) buffers_.push_back({buffer, buffer.tensor.data_ptr()});
  lay_out();
}

ModuleReducer::Impl::~Impl() {
  for (auto& watched : watched_) {
    at::Tensor& gradient = watched.parameter.tensor.mutable_grad();
    if (is_view_of(gradient, watched.in_bucket)) gradient.reset();
  }
}

void ModuleReducer::Impl::watch(const NamedTensor& parameter, std::size_t index) {
  watched_.push_back(
      {.parameter = parameter,
       .values = parameter.tensor.data_ptr(),
       .hook = GradientHook(parameter.tensor, [this, index](const at::Tensor& added) {
         take_gradient(index, added);
       })});
}

/// Creates views of the gradients at their current positions in the reducer.
void ModuleReducer::Impl::lay_out() {
  layout_ = reducer_.layout();
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    auto& [parameter, values, hook, in_bucket, has_gradient] = watched_[i];
    const at::Tensor& tensor = parameter.tensor;
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    const bool was_there = is_view_of(gradient, in_bucket);
    // A reference to the gradient keeps its bucket.
    in_bucket = at::from_blob(
        reducer_.gradient(i).data, tensor.sizes(), tensor.strides(),
        [memory = reducer_.memory(i)](void*) {}, tensor.options().requires_grad(false));
    if (was_there) gradient = in_bucket;
  }
}

void ModuleReducer::Impl::require_idle() const {
  if (phase_ == Phase::idle) return;
  refuse_ddp(
      "the last backward pass has not ended, as an exception was thrown in it: the other ranks do "
      "not know; let this worker end, so that all begin again");
}

void ModuleReducer::Impl::require_in_place() const {
  for (const auto& watched : watched_) {
    const at::Tensor& tensor = watched.parameter.tensor;
    if (tensor.data_ptr() != watched.values || !watched.hook.is_called_for(tensor))
      refuse_moved(named(watched));
    if (!tensor.requires_grad()) {
      refuse_ddp(
          named(watched) +
          " required a gradient when it was wrapped: wrap the module again after freezing it");
    }
  }
  for (const auto& [buffer, values] : buffers_)
    if (buffer.tensor.data_ptr() != values) refuse_moved("buffer " + in_quotes(buffer.name));
  for (const auto& [name, tensor] : frozen_) {
    if (tensor.requires_grad()) {
      refuse_ddp(
          "parameter " + in_quotes(name) +
          " required no gradient when it was wrapped: wrap the module again after the change");
    }
  }
}

void ModuleReducer::Impl::require_same_tensors() const {
  if (identities_of(module_) == identities_) return;
  refuse_ddp(
      "the module has got or lost parameters or buffers since it was wrapped: "
      "register_parameter(), replace_module() and the like must come before");
}

void ModuleReducer::Impl::begin_forward() {
  if (!at::GradMode::is_enabled()) return;
  require_idle();
  require_in_place();
  if (forward_passes_++ % kPassesPerCheck == 0) require_same_tensors();
  if (prepared_ && *prepared_ == averages_) return;
  if (prepared_) {
    refuse_ddp(
        "forward passes within and without no_sync() before one backward pass: evaluate within "
        "torch::NoGradGuard");
  }
  prepared_ = averages_;
  as_ddp([&] { reducer_.begin_forward(averages_); });
  if (reducer_.layout() != layout_) lay_out();
}

void ModuleReducer::Impl::take_gradient(std::size_t index, const at::Tensor& gradient) {
  const std::lock_guard lock(mutex_);
  Watched& watched = watched_[index];
  if (at::GradMode::is_enabled()) {
    refuse_ddp(
        "backward() with create_graph for " + named(watched) +
        ": make a graph of gradients by torch::autograd::grad(), and call backward() without");
  }
  if (gradient.defined() && gradient.layout() != at::kStrided) {
    refuse_ddp(named(watched) +
               " has a sparse gradient, only dense ones can be averaged: make its "
               "embedding with sparse(false)");
  }
  if (phase_ == Phase::idle) begin_backward();
  const at::NoGradGuard no_graph;
  put_into_bucket(watched);
  watched.has_gradient = true;
  mark_ready(index);
}

void ModuleReducer::Impl::mark_ready(std::size_t index) {
  as_ddp([&] {
    if (is_on_device_) {
      reducer_.ready(index, group_.stream());
    } else {
      reducer_.ready(index);
    }
  });
}

void ModuleReducer::Impl::begin_backward() {
  is_synchronising_ = std::exchange(prepared_, {}).value_or(averages_);
  as_ddp([&] { reducer_.begin(is_synchronising_); });
  if (reducer_.layout() != layout_) lay_out();
  for (auto& watched : watched_) watched.has_gradient = false;
  phase_ = Phase::backward;
  ::torch::autograd::Engine::get_default_engine().queue_callback([this] { end_backward(); });
}

/// LibTorch may have replaced the gradient's memory.
void ModuleReducer::Impl::put_into_bucket(Watched& watched) const {
  at::Tensor& gradient = watched.parameter.tensor.mutable_grad();
  if (!gradient.defined()) {
    watched.in_bucket.zero_();
  } else if (gradient.data_ptr() != watched.in_bucket.data_ptr()) {
    watched.in_bucket.copy_(gradient);
  }
  gradient = watched.in_bucket;
}

void ModuleReducer::Impl::end_backward() {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_graph;
  const bool is_handled_by_reducer = !is_synchronising_ || options_.static_graph;
  if (!is_handled_by_reducer && options_.find_unused_parameters) settle_unused();
  if (!is_handled_by_reducer && !options_.find_unused_parameters) require_all_gradients();
  as_ddp([&] {
    if (is_on_device_) {
      reducer_.finish(group_.stream());
    } else {
      reducer_.finish();
    }
  });
  if (is_synchronising_) set_gradients();
  phase_ = Phase::idle;
}

/// Includes gradients of earlier backward passes in the average. An undefined gradient counts as
/// zero, and stays undefined if it is undefined on all ranks.
void ModuleReducer::Impl::settle_unused() {
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (watched_[i].has_gradient) continue;
    if (watched_[i].parameter.tensor.grad().defined()) {
      put_into_bucket(watched_[i]);
      mark_ready(i);
    } else {
      // Discards values from before the gradient became undefined.
      reducer_.discard(i);
      reducer_.unused(i);
    }
  }
}

void ModuleReducer::Impl::require_all_gradients() const {
  std::string names;
  std::size_t missing = 0;
  for (const auto& watched : watched_) {
    if (watched.has_gradient) continue;
    if (missing++ >= kNamesMax) continue;
    names += (names.empty() ? "" : ", ") + in_quotes(watched.parameter.name);
  }
  if (missing == 0) return;
  require_same_tensors();
  if (missing > kNamesMax) names += " and " + std::to_string(missing - kNamesMax) + " more";
  refuse_ddp("the backward pass gave no gradient to " + names +
             ": what a forward pass does not use needs find_unused_parameters");
}

/// Sets gradients that only other ranks have used.
void ModuleReducer::Impl::set_gradients() {
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    at::Tensor& gradient = watched_[i].parameter.tensor.mutable_grad();
    if (!gradient.defined() && reducer_.is_used(i)) gradient = watched_[i].in_bucket;
  }
}

void ModuleReducer::Impl::zero_grad() {
  require_idle();
  for (auto& watched : watched_) watched.parameter.tensor.mutable_grad().reset();
}

void ModuleReducer::Impl::join(const std::function<void()>& after_step) {
  require_idle();
  require_in_place();
  as_ddp([&] { reducer_.join(after_step); });
}

ReducerOptions ddp_defaults() {
  return {.broadcast_buffers = true};
}

ModuleReducer::ModuleReducer(const ::torch::nn::Module& module, const ProcessGroup& group,
                             const ReducerOptions& options)
    : impl_(std::make_unique<Impl>(module, tensors_of(module), group, options)) {}
ModuleReducer::~ModuleReducer() = default;

void ModuleReducer::begin_forward() {
  impl_->begin_forward();
}
void ModuleReducer::set_averaging(bool averages) {
  impl_->set_averaging(averages);
}
bool ModuleReducer::is_averaging() const {
  return impl_->is_averaging();
}
void ModuleReducer::synchronise(Deadline deadline) {
  impl_->synchronise(deadline);
}
void ModuleReducer::abort(const std::string& reason) {
  impl_->abort(reason);
}
void ModuleReducer::zero_grad() {
  impl_->zero_grad();
}
void ModuleReducer::join(const std::function<void()>& after_step) {
  impl_->join(after_step);
}
const GradientReducer& ModuleReducer::reducer() const {
  return impl_->reducer();
}

ProcessGroup init(const GroupOptions& options) {
  GroupOptions with_log = options;
  if (!with_log.log) {
    with_log.log = [](LogLevel level, std::string_view line) {
      if (level < LogLevel::info) return;
      const char* const name = level == LogLevel::info   ? "info"
                               : level == LogLevel::warn ? "warning"
                                                         : "error";
      std::fprintf(stderr, "%s: %.*s\n", name, static_cast<int>(line.size()), line.data());
    };
  }
  return ProcessGroup::create(from_process_environment(), with_log);
}

}  // namespace ddprun::torch
