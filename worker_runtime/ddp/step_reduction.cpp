#include "worker_runtime/ddp/step_reduction.hpp"

#include "worker_runtime/ddp/bucket_memory.hpp"
#include "worker_runtime/ddp/own_gradients.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

StepReduction::StepReduction(ProcessGroup group, std::span<const Parameter> parameters,
                             const ReducerOptions& options, BucketPlan plan)
    : group_(group),
      parameters_(parameters),
      tensors_(group, parameters.empty() ? Device{} : parameters.front().values.device),
      sequence_(options.sequence),
      op_(options.op),
      readiness_(parameters.size(), options.static_graph),
      used_(parameters.size(), 1),
      queue_(std::move(group), tensors_, {.pre_divide = options.pre_divide, .hook = options.hook}) {
  lay_out(std::move(plan));
}

void StepReduction::lay_out(BucketPlan plan) {
  const std::size_t number = layout_ ? layout_->number() + 1 : 0;
  auto memory = allocate_buckets(group_, tensors_, plan, sequence_);
  auto next = std::make_unique<BucketLayout>(tensors_, std::move(plan), std::move(memory),
                                             parameters_, op_, number);
  readiness_.lay_out(next->buckets(), next->views().size());
  queue_.lay_out(next->views());
  if (layout_) {
    next->copy_from(*layout_, group_.stream());
    tensors_.await(group_.stream(), Deadline::never());
  }
  gatherings_ = std::vector<Gathering>(next->views().size());
  layout_ = std::move(next);
}

void StepReduction::zero() {
  readiness_.forget();
  // Work that uses the last step's gradients may not have ended.
  if (held_) tensors_.order(*held_, group_.stream());
  layout_->zero(group_.stream());
  for (const auto& parameter : parameters_) {
    if (has_own_gradient(parameter)) tensors_.zero(parameter.gradient, group_.stream());
  }
}

void StepReduction::begin(bool synchronise, int ranks, bool observe) {
  is_synchronising_ = synchronise;
  stream_ = group_.stream();
  capture_ = tensors_.capture_of(stream_);
  // Work that uses the last step's gradients may not have ended.
  if (held_) tensors_.order(*held_, stream_);
  readiness_.begin(synchronise, observe);
  queue_.begin(ranks);
}

/// Copies a gradient in the caller's memory into the bucket; on a device only when the bucket is
/// complete, since each copy costs a launch.
void StepReduction::copy_in(std::size_t parameter, void* stream) {
  const Buffer& in_bucket = layout_->gradient(parameter);
  const bool adds = is_added(parameters_[parameter], in_bucket);
  if (!adds && (!is_synchronising_ || !is_copied(parameters_[parameter], in_bucket))) return;
  const TensorCopy copy{parameters_[parameter].gradient, in_bucket};
  if (is_synchronising_ && tensors_.is_on_device()) {
    const std::lock_guard lock(mutex_);
    auto& gathering = gatherings_[layout_->buckets()[parameter]];
    (adds ? gathering.sums : gathering.copies).push_back(copy);
  } else if (adds) {
    tensors_.add({&copy, 1}, stream);
    // The next step may use another stream.
    tensors_.order(stream, stream_);
  } else {
    tensors_.copy({&copy, 1}, stream);
  }
}

void StepReduction::note(std::size_t parameter, void* stream) {
  if (!tensors_.is_on_device()) return;
  const std::lock_guard lock(mutex_);
  auto& streams = gatherings_[layout_->buckets()[parameter]].streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

void StepReduction::require_same_capture(void* stream) const {
  if (tensors_.capture_of(stream) == capture_) return;
  throw Error(Errc::usage,
              capture_ == 0
                  ? "GradientReducer: a stream is being captured that was not when the step began "
                    "(begin() comes after cudaStreamBeginCapture(), on the group's stream)"
                  : "GradientReducer: the step is being captured, and a stream of its gradients "
                    "is not part of that (fork it by an event before the backward pass)");
}

void StepReduction::count_down(std::size_t parameter, void* stream) {
  note(parameter, stream);
  if (!readiness_.count_down(parameter)) return;
  // Checked once per bucket: a check per gradient would cost too much.
  require_same_capture(stream);
  const std::size_t bucket = layout_->buckets()[parameter];
  gather(bucket, stream);
  queue_.complete(bucket, stream);
}

/// Copies all gradients of the bucket into it on `stream`.
void StepReduction::gather(std::size_t bucket, void* stream) {
  if (!tensors_.is_on_device()) return;
  Gathering gathering;
  {
    const std::lock_guard lock(mutex_);
    gathering = std::exchange(gatherings_[bucket], {});
  }
  for (void* const other : gathering.streams) tensors_.order(other, stream);
  tensors_.copy(gathering.copies, stream);
  tensors_.add(gathering.sums, stream);
}

void StepReduction::settle_one(std::size_t parameter) {
  const Buffer& in_bucket = layout_->gradient(parameter);
  // Keeps the sums of steps without synchronisation, and clears values of older steps.
  if (!readiness_.has_contributed(parameter)) {
    tensors_.zero(in_bucket, stream_);
  } else if (is_copied(parameters_[parameter], in_bucket)) {
    copy_in(parameter, stream_);
  }
  count_down(parameter, stream_);
}

Readiness::Mark StepReduction::ready(std::size_t parameter, void* stream) {
  if (capture_ != 0) require_same_capture(stream);
  const auto mark = readiness_.mark(parameter);
  if (mark != Readiness::Mark::complete) {
    if (mark == Readiness::Mark::early) note(parameter, stream);
    return mark;
  }
  copy_in(parameter, stream);
  if (is_synchronising_) count_down(parameter, stream);
  return mark;
}

Readiness::Mark StepReduction::unused(std::size_t parameter) {
  const auto mark = readiness_.mark_unused(parameter);
  if (mark == Readiness::Mark::complete && is_synchronising_) settle_one(parameter);
  return mark;
}

std::vector<std::size_t> StepReduction::missing() const {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!readiness_.is_complete(i)) missing.push_back(i);
  }
  return missing;
}

void StepReduction::end_accumulation() {
  if (readiness_.knows_counts()) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (readiness_.is_marked(i)) copy_in(i, stream_);
  }
}

void StepReduction::share_used() {
  for (std::size_t i = 0; i < used_.size(); ++i) used_[i] = readiness_.has_contributed(i) ? 1 : 0;
  if (group_.size() == 1 || used_.empty()) return;
  queue_.add(group_.all_reduce(as_buffer(used_.data(), used_.size()), ReduceOp::max));
}

void StepReduction::end_count() {
  share_used();
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (readiness_.is_marked(i)) {
      copy_in(i, stream_);
      count_down(i, stream_);
    } else {
      settle_one(i);
    }
  }
  readiness_.end_count();
}

void StepReduction::settle() {
  for (const auto parameter : missing()) unused(parameter);
  share_used();
}

void StepReduction::shadow(bool shares_used) {
  readiness_.forget();
  for (const auto parameter : missing()) unused(parameter);
  if (shares_used) share_used();
}

void StepReduction::wait(Deadline deadline) {
  queue_.wait(stream_, deadline);
  copy_out(stream_);
  tensors_.await(stream_, deadline);
}

void StepReduction::hold(void* stream, Deadline deadline) {
  queue_.hold(stream, deadline);
  copy_out(stream);
  held_ = stream;
}

void StepReduction::synchronise(Deadline deadline) {
  if (capture_ == 0) return queue_.await(deadline);
  void* const stream = held_.value_or(stream_);
  if (tensors_.capture_of(stream) != 0) {
    throw Error(Errc::usage,
                "GradientReducer: synchronise() within a capture, in which nothing is carried out "
                "(call it after the graph's launch)");
  }
  // The graph was launched on that stream; the queue does not know of its launches.
  tensors_.await(stream, deadline);
}

/// Copies results to the caller's memory.
void StepReduction::copy_out(void* stream) {
  readiness_.forget();
  std::vector<TensorCopy> copies;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Buffer& in_bucket = layout_->gradient(i);
    if (is_used(i) && is_copied(parameters_[i], in_bucket))
      copies.push_back({in_bucket, parameters_[i].gradient});
  }
  tensors_.copy(copies, stream);
}

}  // namespace ddprun
