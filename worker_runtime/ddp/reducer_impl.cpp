#include "worker_runtime/ddp/reducer_impl.hpp"

#include "worker_runtime/ddp/capture_check.hpp"
#include "worker_runtime/ddp/reducer_checks.hpp"
#include "worker_runtime/ddp/torch_sequence.hpp"
#include "worker_runtime/group/device_queue_of.hpp"

#include <limits>
#include <utility>

namespace ddprun {

namespace {

/// Maximum number of parameter names in the error about missing gradients.
constexpr std::size_t kNamesMax = 10;

/// Sent instead of an order if rank 0 has not taken part in the observed step.
constexpr std::int32_t kNotObserved = -1;

/// Sets the options that CollectiveSequence::pytorch implies: PyTorch rebuilds if possible.
ReducerOptions completed(ReducerOptions options) {
  if (options.sequence == CollectiveSequence::pytorch) {
    options.rebuild_buckets = options.static_graph || !options.find_unused_parameters;
  }
  return options;
}

/// PyTorch starts with one bucket per type if it will rebuild them.
BucketPlan first_plan(std::span<const Parameter> parameters, ReducerOptions options) {
  if (options.sequence == CollectiveSequence::pytorch && options.rebuild_buckets) {
    options.first_bucket_bytes = std::numeric_limits<std::size_t>::max();
    options.bucket_bytes_cap = options.first_bucket_bytes;
  }
  return plan_buckets(parameters, options);
}

/// Returns the device that parameters may be on in addition to the CPU; null if none.
const Device* device_of(const ProcessGroup& group) {
  const DeviceQueue* const queue = device_queue_of(group);
  return queue == nullptr ? nullptr : &queue->device();
}

/// Returns the group after checking that all ranks have the same parameters and options.
ProcessGroup verified(ProcessGroup group, std::span<const Parameter> parameters,
                      std::span<const Buffer> state, const ReducerOptions& options) {
  if (!parameters.empty() &&
      TensorWork(group, parameters.front().values.device).capture_of(group.stream()) != 0)
    refuse_reducer("it is made while the group's stream is being captured (make it before)");
  if (group.size() > 1 && options.verify_parameters) {
    verify_ranks(group, parameters, state, options);
  }
  return group;
}

/// Broadcasts rank 0's order.
void share_order(ProcessGroup& group, std::size_t parameters, std::vector<std::size_t>& order) {
  std::vector<std::int32_t> numbers(order.begin(), order.end());
  numbers.resize(parameters, kNotObserved);
  if (!numbers.empty()) group.broadcast(as_buffer(numbers.data(), numbers.size()), 0).wait();
  order.clear();
  for (const auto number : numbers) {
    if (number != kNotObserved) order.push_back(static_cast<std::size_t>(number));
  }
}

}  // namespace

GradientReducer::Impl::Impl(ProcessGroup group, std::vector<Parameter> parameters,
                            std::vector<Buffer> state, ReducerOptions options)
    : group_(std::move(group)),
      options_(completed(std::move(options))),
      parameters_(checked_parameters(device_of(group_), std::move(parameters), state, options_)),
      state_(std::move(state)),
      inputs_(options_.uneven_inputs),
      drift_(options_.drift_check_steps),
      reduction_(verified(group_, parameters_, state_, options_), parameters_, options_,
                 first_plan(parameters_, options_)),
      log_(group_, parameters_, options_, layout().plan()) {
  if (group_.size() == 1) return;
  if (options_.broadcast_state) broadcast_all(0);
  if (options_.broadcast_buffers) buffers_.emplace(group_, state_);
}

std::size_t GradientReducer::Impl::checked(std::size_t index) const {
  if (index < parameters_.size()) return index;
  refuse_reducer("parameter " + std::to_string(index) + " does not exist, there are " +
                 std::to_string(parameters_.size()));
}

void GradientReducer::Impl::refuse_parameter(std::size_t index, const std::string& reason) const {
  refuse_reducer("parameter " + double_quoted(parameters_[index].name) + " " + reason);
}

void GradientReducer::Impl::broadcast_all(int root) {
  std::vector<Buffer> tensors;
  for (const auto& parameter : parameters_) tensors.push_back(parameter.values);
  tensors.insert(tensors.end(), state_.begin(), state_.end());
  StateBroadcast(group_, tensors).run(root);
}

void GradientReducer::Impl::require_idle(const std::string& call) const {
  if (phase_ == Phase::idle) return;
  const Phase phase = phase_;
  const bool has_failed = phase == Phase::finishing || phase == Phase::checking;
  refuse_reducer(
      call + (has_failed ? " after a step that failed" : " within a step, finish() is missing"));
}

void GradientReducer::Impl::zero_gradients() {
  require_idle("zero_gradients()");
  reduction_.zero();
}

/// Returns the same value on all ranks, regardless of their observations.
bool GradientReducer::Impl::is_rebuild_due() const {
  const std::int64_t observed_step = options_.static_graph ? 2 : 1;
  return options_.rebuild_buckets && !has_rebuilt_ && steps_ >= observed_step;
}

void GradientReducer::Impl::rebuild() {
  has_rebuilt_ = true;
  auto order = reduction_.readiness().observed_order();
  BucketPlan plan;
  if (group_.size() > 1 && options_.sequence == CollectiveSequence::pytorch) {
    plan = broadcast_plan_as_torch(group_, parameters_, plan_buckets(parameters_, options_, order));
  } else {
    if (group_.size() > 1) share_order(group_, parameters_.size(), order);
    plan = plan_buckets(parameters_, options_, order);
  }
  if (plan != layout().plan()) reduction_.lay_out(std::move(plan));
}

/// Runs the collectives before a step, which are equal on all ranks, with or without input.
StepPartners GradientReducer::Impl::prepare(bool takes_part, bool synchronise) {
  const StepPartners partners = inputs_.announce(group_, takes_part, synchronise);
  if (partners.active == 0) return partners;
  if (is_rebuild_due()) rebuild();
  if (buffers_ && buffers_are_old_) buffers_->run(partners.first);
  buffers_are_old_ = partners.synchronise;
  return partners;
}

/// Must be called before any call of the group or work on a stream.
void GradientReducer::Impl::require_capturable() const {
  if (reduction_.tensors().capture_of(group_.stream()) == 0) return;
  const std::string reason =
      why_not_captured(options_, state_,
                       {.steps = steps_,
                        .has_rebuilt = has_rebuilt_,
                        .knows_counts = reduction_.readiness().knows_counts()});
  if (!reason.empty()) refuse_reducer("this step cannot be captured: " + reason);
}

void GradientReducer::Impl::begin_forward(bool synchronise) {
  require_idle("begin_forward()");
  require_capturable();
  if (forward_) refuse_reducer("begin_forward() was called twice without begin()");
  forward_ = prepare(true, synchronise);
  forward_began_ = Deadline::Clock::now();
}

void GradientReducer::Impl::begin(bool synchronise) {
  require_idle("begin()");
  require_capturable();
  forward_seconds_ = 0;
  if (forward_) {
    const std::chrono::duration<double> forward = Deadline::Clock::now() - forward_began_;
    forward_seconds_ = forward.count();
  } else {
    forward_ = prepare(true, synchronise);
  }
  if (forward_->synchronise != synchronise) {
    refuse_reducer("begin() and begin_forward() differ in whether to synchronise");
  }
  start(*std::exchange(forward_, {}));
}

void GradientReducer::Impl::start(const StepPartners& partners) {
  partners_ = partners;
  const bool observes = options_.rebuild_buckets && !has_rebuilt_;
  reduction_.begin(partners.synchronise, inputs_.divisor(partners, group_.size()), observes);
  phase_ = partners.synchronise ? Phase::synchronising : Phase::accumulating;
  if (!partners.synchronise) return;
  // Ranks without input have not performed the last optimizer steps.
  checks_drift_ =
      group_.size() > 1 && drift_.is_due(steps_ + 1) && partners.active == group_.size();
  if (checks_drift_) {
    reduction_.queue().add(
        drift_.start(group_, reduction_.tensors(), layout().plan(), parameters_, steps_ + 1));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (reduction_.readiness().is_never_ready(i)) reduction_.unused(i);
  }
}

void GradientReducer::Impl::require_step(std::size_t index, const char* what) const {
  const Phase phase = phase_;
  if (phase == Phase::accumulating || phase == Phase::synchronising) return;
  refuse_parameter(index, std::string("is ") + what + " outside a step, begin() is missing");
}

void GradientReducer::Impl::ready(std::size_t index, void* stream) {
  require_step(checked(index), "ready");
  if (reduction_.ready(index, stream) != Readiness::Mark::too_often) return;
  const auto expected = reduction_.readiness().expected(index);
  if (!options_.static_graph) refuse_parameter(index, "is ready twice in a step");
  refuse_parameter(index, "is ready more often than the " + std::to_string(expected) +
                              " times of the first step: the graph is not static");
}

void GradientReducer::Impl::unused(std::size_t index) {
  require_step(checked(index), "unused");
  if (!options_.find_unused_parameters) {
    refuse_parameter(index, "is unused: set find_unused_parameters");
  }
  // A static graph finds unused parameters by counting.
  if (options_.static_graph) return;
  if (reduction_.unused(index) == Readiness::Mark::too_often) {
    refuse_parameter(index, "is unused, but was ready or unused in this step before");
  }
}

void GradientReducer::Impl::require_all_ready() const {
  const auto missing = reduction_.missing();
  if (missing.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < missing.size() && i < kNamesMax; ++i) {
    names += (i == 0 ? " " : ", ") + double_quoted(parameters_[missing[i]].name);
  }
  if (missing.size() > kNamesMax) {
    names += " and " + std::to_string(missing.size() - kNamesMax) + " more";
  }
  refuse_reducer("no gradient for" + names +
                 (options_.static_graph
                      ? ", which the first step used: the graph is not static"
                      : ": call ready() for each parameter, or set find_unused_parameters"));
}

template <typename Wait>
void GradientReducer::Impl::complete_step(const Wait& wait) {
  wait();
  phase_ = Phase::checking;
  ++steps_;
  if (checks_drift_)
    drift_.finish(group_, reduction_.tensors(), layout().plan(), parameters_, steps_);
  checks_drift_ = false;
  phase_ = Phase::idle;
}

StepTimeline GradientReducer::Impl::finish(Deadline deadline) {
  if (reduction_.capture() != 0 && phase_ == Phase::synchronising) {
    refuse_reducer(
        "finish() waits on the host, and the step is being captured; give it a stream of the "
        "capture");
  }
  return finish_by([&] { reduction_.wait(deadline); });
}

StepTimeline GradientReducer::Impl::finish(void* stream) {
  if (phase_ == Phase::synchronising) reduction_.require_same_capture(stream);
  return finish_by([&] { reduction_.hold(stream, Deadline::never()); });
}

template <typename Wait>
StepTimeline GradientReducer::Impl::finish_by(const Wait& wait) {
  BucketQueue& queue = reduction_.queue();
  const double called = queue.seconds(Deadline::Clock::now());
  if (phase_ == Phase::accumulating) {
    reduction_.end_accumulation();
    phase_ = Phase::idle;
    return {.buckets = {},
            .finish_called_seconds = called,
            .finished_seconds = called,
            .begun = queue.begin_time(),
            .forward_seconds = forward_seconds_};
  }
  if (phase_ != Phase::synchronising) refuse_reducer("finish() outside a step, begin() is missing");
  const bool counts = reduction_.readiness().is_counting();
  const bool settles = options_.find_unused_parameters && !options_.static_graph;
  if (!counts && !settles) require_all_ready();
  phase_ = Phase::finishing;
  if (counts) reduction_.end_count();
  if (settles) reduction_.settle();
  complete_step(wait);
  const StepTimeline timeline = {.buckets = queue.timeline(),
                                 .finish_called_seconds = called,
                                 .finished_seconds = queue.seconds(Deadline::Clock::now()),
                                 .begun = queue.begin_time(),
                                 .forward_seconds = forward_seconds_};
  log_.add(timeline);
  return timeline;
}

DdpLoggingData GradientReducer::Impl::logging_data() const {
  std::int64_t unused = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_used(i)) unused += static_cast<std::int64_t>(parameters_[i].values.bytes());
  }
  return log_.data(layout(), reduction_.readiness().observed_order(), unused);
}

/// Takes part in a step of the other ranks with zero gradients.
void GradientReducer::Impl::shadow(const StepPartners& partners) {
  if (!reduction_.readiness().knows_counts()) {
    refuse_reducer("static_graph needs input for the first step on every rank");
  }
  start(partners);
  if (partners.synchronise) {
    phase_ = Phase::finishing;
    reduction_.shadow(options_.find_unused_parameters && !options_.static_graph);
    complete_step([&] { reduction_.wait(Deadline::never()); });
  }
  phase_ = Phase::idle;
}

void GradientReducer::Impl::join(const std::function<void()>& after_step) {
  require_idle("join()");
  if (options_.uneven_inputs == UnevenInputs::none) refuse_reducer("join() without uneven_inputs");
  if (forward_) refuse_reducer("join() after begin_forward(), begin() is missing");
  if (group_.size() == 1) return;
  for (auto next = prepare(false, false); next.active > 0; next = prepare(false, false)) {
    shadow(next);
    if (after_step) after_step();
  }
  if (partners_.active > 0) broadcast_all(partners_.last);
}

}  // namespace ddprun
