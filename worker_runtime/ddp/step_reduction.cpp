#include "worker_runtime/ddp/step_reduction.hpp"

#include "worker_runtime/ddp/own_gradients.hpp"

#include <utility>

namespace ddprun {

StepReduction::StepReduction(ProcessGroup group, std::span<const Parameter> parameters,
                             const ReducerOptions& options, BucketPlan plan)
    : group_(group),
      parameters_(parameters),
      op_(options.op),
      readiness_(parameters.size(), options.static_graph),
      used_(parameters.size(), 1),
      queue_(std::move(group), {.pre_divide = options.pre_divide, .hook = options.hook}) {
  lay_out(std::move(plan));
}

void StepReduction::lay_out(BucketPlan plan) {
  const std::size_t number = layout_ ? layout_->number() + 1 : 0;
  auto next = std::make_unique<BucketLayout>(group_, std::move(plan), parameters_, op_, number);
  if (layout_) next->copy_from(*layout_);
  readiness_.lay_out(next->buckets(), next->views().size());
  queue_.lay_out(next->views());
  layout_ = std::move(next);
}

void StepReduction::zero() {
  readiness_.forget();
  layout_->zero();
  for (const auto& parameter : parameters_) {
    if (has_own_gradient(parameter)) fill_zero(parameter.gradient);
  }
}

void StepReduction::begin(bool synchronise, int ranks, bool observe) {
  is_synchronising_ = synchronise;
  readiness_.begin(synchronise, observe);
  queue_.begin(ranks);
}

/// Puts a gradient that lies elsewhere into the bucket.
void StepReduction::take_own(std::size_t parameter) {
  const Buffer& own = parameters_[parameter].gradient;
  const Buffer& in_bucket = layout_->gradient(parameter);
  if (is_added(parameters_[parameter], in_bucket)) {
    add_widened(own, in_bucket);
  } else if (is_synchronising_ && is_copied(parameters_[parameter], in_bucket)) {
    copy_elements(own, in_bucket);
  }
}

void StepReduction::count_down(std::size_t parameter) {
  if (readiness_.count_down(parameter)) queue_.complete(layout_->buckets()[parameter]);
}

void StepReduction::settle_one(std::size_t parameter) {
  const Buffer& in_bucket = layout_->gradient(parameter);
  // What a step without synchronisation has left there counts; anything else is an old step's.
  if (!readiness_.has_contributed(parameter)) {
    fill_zero(in_bucket);
  } else if (is_copied(parameters_[parameter], in_bucket)) {
    copy_elements(parameters_[parameter].gradient, in_bucket);
  }
  count_down(parameter);
}

Readiness::Mark StepReduction::ready(std::size_t parameter) {
  const auto mark = readiness_.mark(parameter);
  if (mark != Readiness::Mark::complete) return mark;
  take_own(parameter);
  if (is_synchronising_) count_down(parameter);
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
    if (readiness_.is_marked(i)) take_own(i);
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
      take_own(i);
      count_down(i);
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
  queue_.wait(deadline);
  readiness_.forget();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Buffer& in_bucket = layout_->gradient(i);
    if (is_used(i) && is_copied(parameters_[i], in_bucket)) {
      copy_elements(in_bucket, parameters_[i].gradient);
    }
  }
}

}  // namespace ddprun
