#include "worker_runtime/ddp/bucket_queue.hpp"
#include "worker_runtime/ddp/rank_agreement.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace ddprun {

namespace {

/// Names in the error about missing gradients; the rest is counted.
constexpr std::size_t kNamesMax = 10;

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

std::string describe(const std::string& what, const Buffer& values,
                     std::span<const std::size_t> shape = {}) {
  std::string dimensions;
  for (const auto size : shape)
    dimensions += (dimensions.empty() ? "" : ", ") + std::to_string(size);
  if (shape.empty()) dimensions = std::to_string(values.elements);
  return what + " " + to_string(values.type) + "[" + dimensions + "]";
}

/// True if the dimensions, where there are any, make up the elements.
bool has_fitting_shape(const Parameter& parameter) {
  if (parameter.shape.empty()) return true;
  std::size_t left = parameter.values.elements;
  for (const auto size : parameter.shape) {
    if (size == 0) return parameter.values.elements == 0;
    if (left % size != 0) return false;
    left /= size;
  }
  return left == 1 || parameter.values.elements == 0;
}

/// What has to be equal on all ranks for their collectives to match.
std::vector<std::string> describe_all(std::span<const Parameter> parameters,
                                      std::span<const Buffer> state,
                                      const ReducerOptions& options) {
  std::vector<std::string> list = {
      "options first_bucket_bytes " + std::to_string(options.first_bucket_bytes) +
      ", bucket_bytes_cap " + std::to_string(options.bucket_bytes_cap) + ", op " +
      to_string(options.op) + ", broadcast_state " + std::to_string(options.broadcast_state) +
      ", find_unused_parameters " + std::to_string(options.find_unused_parameters)};
  for (const auto& parameter : parameters) {
    const auto what = "parameter " + quoted(parameter.name);
    list.push_back(describe(what, parameter.values, parameter.shape));
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    list.push_back(describe("state buffer " + std::to_string(i), state[i]));
  }
  return list;
}

void check_arguments(std::span<const Parameter> parameters, std::span<const Buffer> state,
                     const ReducerOptions& options) {
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum) {
    throw Error(Errc::usage, std::string("gradient reducer: op ") + to_string(options.op) +
                                 ", must be average or sum");
  }
  const auto check = [](const std::string& what, const Buffer& values) {
    if (values.device.kind != Device::Kind::cpu) {
      throw Error(Errc::usage, "gradient reducer: " + what + " is not in the memory of the CPU");
    }
    if (values.data == nullptr && values.elements > 0) {
      throw Error(Errc::usage, "gradient reducer: " + what + " has no memory");
    }
  };
  for (const auto& parameter : parameters) {
    const auto what = "parameter " + quoted(parameter.name);
    check(what, parameter.values);
    if (!has_fitting_shape(parameter)) {
      throw Error(Errc::usage,
                  "gradient reducer: " + describe(what, parameter.values, parameter.shape) +
                      " has " + std::to_string(parameter.values.elements) + " elements");
    }
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    check("state buffer " + std::to_string(i), state[i]);
  }
}

/// The group, once it is sure that all ranks ask the same of it.
ProcessGroup checked_group(ProcessGroup group, std::span<const Parameter> parameters,
                           std::span<const Buffer> state, const ReducerOptions& options) {
  check_arguments(parameters, state, options);
  if (group.size() > 1 && options.verify_parameters) {
    require_agreement(group, "gradient reducer", describe_all(parameters, state, options));
  }
  return group;
}

}  // namespace

class GradientReducer::Impl {
 public:
  Impl(ProcessGroup group, std::vector<Parameter> parameters, std::span<const Buffer> state,
       const ReducerOptions& options);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  /// The other ranks will wait for the buckets of a step that is under way.
  ~Impl() {
    if (phase_ == Phase::synchronising) queue_.abort();
  }

  const Buffer& gradient(std::size_t index) const { return slots_[checked(index)].gradient; }
  const BucketPlan& plan() const { return plan_; }
  void zero_gradients();
  void begin(bool synchronise);
  void ready(std::size_t index);
  StepTimeline finish(Deadline deadline);
  bool is_used(std::size_t index) const { return used_[checked(index)] != 0; }

 private:
  enum class Phase { idle, accumulating, synchronising, failed };

  /// One parameter.
  struct Slot {
    Buffer gradient;
    std::size_t bucket = 0;
    std::atomic<bool> is_ready = false;
    /// Ready in this step or in one without synchronisation before it.
    std::atomic<bool> has_contributed = false;
  };

  std::size_t checked(std::size_t index) const;
  void lay_out();
  void broadcast(std::span<const Buffer> state);
  void require_idle(const std::string& call) const;
  void count_down(const Slot& slot);
  void require_all_ready() const;
  void settle_unused();
  [[noreturn]] void refuse(std::size_t index, const std::string& reason) const;

  std::vector<Parameter> parameters_;
  bool find_unused_parameters_;
  BucketPlan plan_;
  std::vector<Slot> slots_;
  std::vector<std::atomic<std::size_t>> missing_;  ///< gradients, by bucket
  std::vector<std::int32_t> used_;                 ///< by any rank, after finish()
  std::atomic<Phase> phase_ = Phase::idle;
  BucketQueue queue_;  // last, because it may still be at work in the others' memory
};

GradientReducer::Impl::Impl(ProcessGroup group, std::vector<Parameter> parameters,
                            std::span<const Buffer> state, const ReducerOptions& options)
    : parameters_(std::move(parameters)),
      find_unused_parameters_(options.find_unused_parameters),
      plan_(plan_buckets(parameters_, options)),
      slots_(parameters_.size()),
      missing_(plan_.buckets.size()),
      used_(parameters_.size(), 1),
      queue_(checked_group(std::move(group), parameters_, state, options), plan_, options.op) {
  lay_out();
  if (queue_.group().size() > 1 && options.broadcast_state) broadcast(state);
}

std::size_t GradientReducer::Impl::checked(std::size_t index) const {
  if (index < slots_.size()) return index;
  throw Error(Errc::usage, "gradient reducer: parameter " + std::to_string(index) +
                               " does not exist, there are " + std::to_string(slots_.size()));
}

void GradientReducer::Impl::refuse(std::size_t index, const std::string& reason) const {
  throw Error(Errc::usage,
              "gradient reducer: parameter " + quoted(parameters_[index].name) + " " + reason);
}

/// Densely, as PyTorch does: a bucket has exactly its parameters' elements.
void GradientReducer::Impl::lay_out() {
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    std::size_t first = 0;
    for (const std::size_t index : plan_.buckets[b].parameters) {
      const std::size_t elements = parameters_[index].values.elements;
      slots_[index].bucket = b;
      slots_[index].gradient = queue_.gradients(b).slice(first, elements);
      first += elements;
    }
  }
}

/// Buckets have the parameters' types and sizes, and nothing is in them yet: they serve to send the
/// parameters in a few large pieces.
void GradientReducer::Impl::broadcast(std::span<const Buffer> state) {
  const auto copy = [this](bool to_buckets) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Buffer& values = parameters_[i].values;
      const Buffer& gradient = slots_[i].gradient;
      if (values.elements == 0) continue;
      std::memcpy(to_buckets ? gradient.data : values.data,
                  to_buckets ? values.data : gradient.data, values.bytes());
    }
  };
  const bool is_root = queue_.group().rank() == 0;
  if (is_root) copy(true);
  queue_.broadcast(state);
  if (!is_root) copy(false);
  queue_.zero();
}

void GradientReducer::Impl::require_idle(const std::string& call) const {
  if (phase_ == Phase::idle) return;
  throw Error(Errc::usage, "gradient reducer: " + call +
                               (phase_ == Phase::failed ? " after a step that failed"
                                                        : " within a step, finish() is missing"));
}

void GradientReducer::Impl::zero_gradients() {
  require_idle("zero_gradients()");
  for (auto& slot : slots_) slot.has_contributed = false;
  queue_.zero();
}

void GradientReducer::Impl::begin(bool synchronise) {
  require_idle("begin()");
  for (auto& slot : slots_) slot.is_ready = false;
  for (std::size_t b = 0; b < missing_.size(); ++b) {
    missing_[b] = plan_.buckets[b].parameters.size();
  }
  queue_.begin();
  phase_ = synchronise ? Phase::synchronising : Phase::accumulating;
}

void GradientReducer::Impl::ready(std::size_t index) {
  Slot& slot = slots_[checked(index)];
  const Phase phase = phase_;
  if (phase != Phase::accumulating && phase != Phase::synchronising) {
    refuse(index, "is ready outside a step, begin() is missing");
  }
  if (slot.is_ready.exchange(true)) refuse(index, "is ready twice in a step");
  slot.has_contributed = true;
  if (phase == Phase::synchronising) count_down(slot);
}

void GradientReducer::Impl::count_down(const Slot& slot) {
  if (missing_[slot.bucket].fetch_sub(1) == 1) queue_.complete(slot.bucket);
}

void GradientReducer::Impl::require_all_ready() const {
  std::string names;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].is_ready) continue;
    if (++missing <= kNamesMax) names += (missing == 1 ? " " : ", ") + quoted(parameters_[i].name);
  }
  if (missing == 0) return;
  if (missing > kNamesMax) names += " and " + std::to_string(missing - kNamesMax) + " more";
  throw Error(Errc::usage, "gradient reducer: no gradient for" + names +
                               ": call ready() for each parameter, or set find_unused_parameters");
}

void GradientReducer::Impl::settle_unused() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    used_[i] = slot.has_contributed ? 1 : 0;
    if (slot.is_ready) continue;
    // What a step without synchronisation has left there counts; anything else is an old step's.
    if (!slot.has_contributed && slot.gradient.elements > 0) {
      std::memset(slot.gradient.data, 0, slot.gradient.bytes());
    }
    count_down(slot);
  }
  queue_.append(as_buffer(used_.data(), used_.size()), ReduceOp::max);
}

StepTimeline GradientReducer::Impl::finish(Deadline deadline) {
  const double called = queue_.seconds(Deadline::Clock::now());
  if (phase_ == Phase::accumulating) {
    phase_ = Phase::idle;
    return {.buckets = {}, .finish_called_seconds = called, .finished_seconds = called};
  }
  if (phase_ != Phase::synchronising) {
    throw Error(Errc::usage, "gradient reducer: finish() outside a step, begin() is missing");
  }
  if (!find_unused_parameters_) require_all_ready();
  phase_ = Phase::failed;  // until all has gone well
  if (find_unused_parameters_) settle_unused();
  queue_.wait(deadline);
  for (auto& slot : slots_) slot.has_contributed = false;
  phase_ = Phase::idle;
  return {.buckets = queue_.timeline(),
          .finish_called_seconds = called,
          .finished_seconds = queue_.seconds(Deadline::Clock::now())};
}

GradientReducer::GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                                 std::vector<Buffer> state, ReducerOptions options)
    : impl_(std::make_unique<Impl>(std::move(group), std::move(parameters), state, options)) {}
GradientReducer::GradientReducer(GradientReducer&&) noexcept = default;
GradientReducer& GradientReducer::operator=(GradientReducer&&) noexcept = default;
GradientReducer::~GradientReducer() = default;

Buffer GradientReducer::gradient(std::size_t index) const {
  return impl_->gradient(index);
}
const BucketPlan& GradientReducer::plan() const {
  return impl_->plan();
}
void GradientReducer::zero_gradients() {
  impl_->zero_gradients();
}
void GradientReducer::begin(bool synchronise) {
  impl_->begin(synchronise);
}
void GradientReducer::ready(std::size_t index) {
  impl_->ready(index);
}
StepTimeline GradientReducer::finish(Deadline deadline) {
  return impl_->finish(deadline);
}
bool GradientReducer::is_used(std::size_t index) const {
  return impl_->is_used(index);
}

}  // namespace ddprun
