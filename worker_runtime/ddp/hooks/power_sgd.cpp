// A gradient M [n, m] travels as P [rank, n] and Q [rank, m], M being about the sum over k of
// P[k, i] * Q[k, j]. Each step, with Q of the last one: P = M Q, averaged over the ranks and made
// orthonormal; Q = M' P, averaged. What P and Q miss of this rank's M is added to its next M.
//
// On a device all of it is given to streams, and the host waits for nothing but new memory.
#include "worker_runtime/ddp/hooks/low_rank.hpp"
#include "worker_runtime/ddp/hooks/step_count.hpp"
#include "worker_runtime/ddp/tensor_work.hpp"
#include "worker_runtime/ddp/wait_in_any_case.hpp"
#include <ddprun/bucket_hooks.hpp>

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace ddprun {

namespace {

/// What is kept for a bucket.
struct BucketState {
  std::size_t layout = 0;
  bool is_exact = true;  ///< this step's all-reduce is that of the whole bucket
  bool has_right = false;
  std::vector<LowRankMatrix> matrices;
  std::vector<TensorCopy> others;  ///< gradients that travel as they are, to `other`
  std::vector<std::shared_ptr<void>> memory;
  Buffer left;    ///< all P
  Buffer right;   ///< all Q
  Buffer other;   ///< a copy of all others
  Buffer errors;  ///< of all elements of the bucket
  Work other_work;
  Work right_work;
};

float* floats(const Buffer& buffer) {
  return static_cast<float*>(buffer.data);
}

class PowerSgd {
 public:
  PowerSgd(ProcessGroup group, const PowerSgdOptions& options)
      : group_(std::move(group)), options_(options) {}

  void start(const BucketView& bucket, Work& work);
  void complete(const BucketView& bucket, Deadline deadline);
  void await(Deadline deadline);

 private:
  LowRankMatrix matrix_of(const BucketGradient& part) const;
  BucketState laid_out(const BucketView& bucket, const TensorWork& tensors);
  void share_out(const BucketView& bucket, const TensorWork& tensors, BucketState& state);
  Buffer allocate(BucketState& state, const TensorWork& tensors, std::size_t elements,
                  bool travels = true);
  void fill_right(const BucketView& bucket, const TensorWork& tensors, BucketState& state);
  void compute(const TensorWork& tensors, const BucketState& state, LowRankOrder order) const;
  void copy_back(const TensorWork& tensors, const BucketState& state) const;
  void let_end(const TensorWork& tensors, const Work& work, Deadline deadline);

  ProcessGroup group_;
  PowerSgdOptions options_;
  StepCount steps_;
  std::int64_t step_ = 0;                      ///< the one under way
  std::map<std::size_t, BucketState> states_;  ///< by bucket
};

/// Empty if the gradient is not worth compressing.
LowRankMatrix PowerSgd::matrix_of(const BucketGradient& part) const {
  const std::size_t rows = part.shape.front();
  if (part.shape.size() < 2 || part.gradient.elements == 0) return {};
  const std::size_t columns = part.gradient.elements / rows;
  const auto sent = static_cast<double>((rows + columns) * options_.rank);
  if (sent * options_.min_compression_rate >= static_cast<double>(part.gradient.elements))
    return {};
  return {.matrix = floats(part.gradient), .rows = rows, .columns = columns};
}

/// Zeroed. The group's memory, of which there is not as much on the CPU, is for what travels.
Buffer PowerSgd::allocate(BucketState& state, const TensorWork& tensors, std::size_t elements,
                          bool travels) {
  if (elements == 0) return {};
  if (travels || tensors.is_on_device()) {
    state.memory.push_back(tensors.allocate(elements * sizeof(float)));
  } else {
    state.memory.push_back(std::shared_ptr<float[]>(new float[elements]()));
  }
  return {state.memory.back().get(), elements, DataType::float32, tensors.device()};
}

BucketState PowerSgd::laid_out(const BucketView& bucket, const TensorWork& tensors) {
  BucketState state{.layout = bucket.layout, .is_exact = false};
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t other = 0;
  for (const auto& part : bucket.parts) {
    const LowRankMatrix matrix = matrix_of(part);
    if (matrix.matrix == nullptr) {
      state.others.push_back({.from = part.gradient, .to = part.gradient});
      other += part.gradient.elements;
    } else {
      state.matrices.push_back(matrix);
      left += options_.rank * matrix.rows;
      right += options_.rank * matrix.columns;
    }
  }
  state.left = allocate(state, tensors, left);
  state.right = allocate(state, tensors, right);
  state.other = allocate(state, tensors, other);
  if (options_.error_feedback && !state.matrices.empty())
    state.errors = allocate(state, tensors, bucket.gradients.elements, false);
  share_out(bucket, tensors, state);
  return state;
}

/// Gives matrices and other gradients their places.
void PowerSgd::share_out(const BucketView& bucket, const TensorWork& tensors, BucketState& state) {
  std::size_t first = 0;
  for (auto& copy : state.others) {
    copy.to = state.other.slice(first, copy.from.elements);
    first += copy.from.elements;
  }
  std::size_t chunks = 0;
  for (const auto& matrix : state.matrices)
    chunks += low_rank_partial_elements(matrix, options_.rank);
  float* partial = floats(allocate(state, tensors, tensors.is_on_device() ? chunks : 0));
  float* left = floats(state.left);
  float* right = floats(state.right);
  for (auto& matrix : state.matrices) {
    matrix.left = std::exchange(left, left + options_.rank * matrix.rows);
    matrix.right = std::exchange(right, right + options_.rank * matrix.columns);
    if (partial != nullptr)
      matrix.partial =
          std::exchange(partial, partial + low_rank_partial_elements(matrix, options_.rank));
    if (state.errors.elements > 0)
      matrix.errors = floats(state.errors) + (matrix.matrix - floats(bucket.gradients));
  }
}

void PowerSgd::compute(const TensorWork& tensors, const BucketState& state,
                       LowRankOrder order) const {
  order.rank = static_cast<std::uint32_t>(options_.rank);
  tensors.low_rank(order, state.matrices, group_.stream());
}

/// Q to begin with, the same on every rank.
void PowerSgd::fill_right(const BucketView& bucket, const TensorWork& tensors, BucketState& state) {
  if (!state.has_right || !options_.warm_start) {
    const auto step = static_cast<std::uint64_t>(options_.warm_start ? 0 : step_);
    const LowRankMatrix all{
        .right = floats(state.right), .rows = 1, .columns = state.right.elements};
    tensors.low_rank({.step = LowRankStep::fill_right,
                      .seed = first_matrices_seed(options_.seed, bucket.index, step)},
                     {&all, 1}, group_.stream());
    state.has_right = true;
  }
  compute(tensors, state, {.step = LowRankStep::orthonormalise_right});
}

void PowerSgd::start(const BucketView& bucket, Work& work) {
  step_ = steps_.before(bucket);
  BucketState& state = states_[bucket.index];
  state.is_exact = step_ < options_.start_step || bucket.gradients.type != DataType::float32;
  if (state.is_exact) {
    work = group_.all_reduce(bucket.gradients, bucket.op);
    return;
  }
  const TensorWork tensors(group_, bucket.gradients.device);
  const bool is_new = state.matrices.empty() && state.others.empty();
  if (is_new || state.layout != bucket.layout) state = laid_out(bucket, tensors);
  if (state.errors.elements > 0) {
    const TensorCopy missed{.from = state.errors, .to = bucket.gradients};
    tensors.add({&missed, 1}, group_.stream());
  }
  tensors.copy(state.others, group_.stream());
  if (state.other.elements > 0) state.other_work = group_.all_reduce(state.other, bucket.op);
  work = state.other_work;
  if (state.matrices.empty()) return;
  fill_right(bucket, tensors, state);
  compute(tensors, state, {.step = LowRankStep::project_columns});
  work = group_.all_reduce(state.left, ReduceOp::average);
}

/// What comes after this finds the end of `work`, which nobody else knows: when this gives up, it
/// has ended all the same, for its memory is the state's.
void PowerSgd::let_end(const TensorWork& tensors, const Work& work, Deadline deadline) {
  if (tensors.is_on_device()) return work.hold(group_.stream());
  try {
    work.wait(deadline);
  } catch (...) {
    group_.abort("its bucket hook PowerSGD gave up");
    wait_in_any_case(work);
    throw;
  }
}

/// Replaces the bucket's gradients by what all ranks have, and keeps what that misses of them.
void PowerSgd::complete(const BucketView& bucket, Deadline deadline) {
  BucketState& state = states_[bucket.index];
  if (state.is_exact) return;
  const TensorWork tensors(group_, bucket.gradients.device);
  if (!state.matrices.empty()) {
    compute(tensors, state, {.step = LowRankStep::orthonormalise_left});
    compute(tensors, state, {.step = LowRankStep::project_rows});
    state.right_work = group_.all_reduce(state.right, ReduceOp::average);
    let_end(tensors, state.right_work, deadline);
    const float factor = bucket.op == ReduceOp::sum ? static_cast<float>(group_.size()) : 1;
    compute(tensors, state, {.step = LowRankStep::expand, .factor = factor});
  }
  let_end(tensors, state.other_work, deadline);
  copy_back(tensors, state);
}

void PowerSgd::copy_back(const TensorWork& tensors, const BucketState& state) const {
  std::vector<TensorCopy> back;
  for (const auto& copy : state.others) back.push_back({.from = copy.to, .to = copy.from});
  tensors.copy(back, group_.stream());
}

void PowerSgd::await(Deadline deadline) {
  for (const auto& [bucket, state] : states_) {
    state.right_work.wait(deadline);
    state.other_work.wait(deadline);
  }
}

}  // namespace

BucketHook power_sgd(ProcessGroup group, PowerSgdOptions options) {
  if (options.rank == 0)
    throw Error(Errc::usage, "bucket hook: PowerSGD of rank 0, must be 1 or more");
  const auto state = std::make_shared<PowerSgd>(std::move(group), options);
  return {.name = "PowerSGD of rank " + std::to_string(options.rank) + " after " +
                  std::to_string(options.start_step),
          .start = [state](const BucketView& bucket, Work& work) { state->start(bucket, work); },
          .complete = [state](const BucketView& bucket,
                              Deadline deadline) { state->complete(bucket, deadline); },
          .await = [state](Deadline deadline) { state->await(deadline); }};
}

}  // namespace ddprun
