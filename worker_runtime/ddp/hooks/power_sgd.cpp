// A gradient M [n, m] travels as P [rank, n] and Q [rank, m], M being about the sum over k of
// P[k, i] * Q[k, j]. Each step, with Q of the last one: P = M Q, averaged over the ranks and made
// orthonormal; Q = M' P, averaged. What P and Q miss of this rank's M is added to its next M.
#include "worker_runtime/ddp/hooks/low_rank.hpp"
#include "worker_runtime/ddp/hooks/step_count.hpp"
#include "worker_runtime/ddp/wait_in_any_case.hpp"
#include <ddprun/bucket_hooks.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace ddprun {

namespace {

struct Compressed {
  MatrixView gradient;
  MatrixView left;   ///< P
  MatrixView right;  ///< Q
};

/// What is kept for a bucket.
struct BucketState {
  std::size_t layout = 0;
  bool is_exact = true;  ///< this step's all-reduce is that of the whole bucket
  bool has_right = false;
  std::vector<Compressed> matrices;
  std::vector<Buffer> others;  ///< gradients that travel as they are
  std::vector<float> errors;   ///< of all elements of the bucket
  std::shared_ptr<void> left_memory;
  std::shared_ptr<void> right_memory;
  std::shared_ptr<void> other_memory;
  Buffer left;   ///< all P
  Buffer right;  ///< all Q
  Buffer other;  ///< a copy of all others
  Work other_work;
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

 private:
  MatrixView matrix_of(const BucketGradient& part) const;
  void lay_out(const BucketView& bucket, BucketState& state);
  void fill_right(const BucketView& bucket, BucketState& state);
  void expand(const BucketView& bucket, BucketState& state) const;
  void wait(const Work& work, Deadline deadline);

  ProcessGroup group_;
  PowerSgdOptions options_;
  StepCount steps_;
  std::int64_t step_ = 0;                      ///< the one under way
  std::map<std::size_t, BucketState> states_;  ///< by bucket
};

/// Empty if the gradient is not worth compressing.
MatrixView PowerSgd::matrix_of(const BucketGradient& part) const {
  const std::size_t rows = part.shape.front();
  if (part.shape.size() < 2 || part.gradient.elements == 0) return {};
  const std::size_t columns = part.gradient.elements / rows;
  const auto sent = static_cast<double>((rows + columns) * options_.rank);
  if (sent * options_.min_compression_rate >= static_cast<double>(part.gradient.elements))
    return {};
  return {floats(part.gradient), rows, columns};
}

void PowerSgd::lay_out(const BucketView& bucket, BucketState& state) {
  state = {};
  state.layout = bucket.layout;
  for (const auto& part : bucket.parts) {
    const MatrixView gradient = matrix_of(part);
    if (gradient.data == nullptr) {
      state.others.push_back(part.gradient);
      state.other.elements += part.gradient.elements;
    } else {
      state.matrices.push_back({.gradient = gradient});
      state.left.elements += options_.rank * gradient.rows;
      state.right.elements += options_.rank * gradient.columns;
    }
  }
  const auto allocate = [this](Buffer& buffer, std::shared_ptr<void>& memory) {
    if (buffer.elements > 0) memory = group_.allocate(buffer.bytes());
    buffer.data = memory.get();
  };
  allocate(state.left, state.left_memory);
  allocate(state.right, state.right_memory);
  allocate(state.other, state.other_memory);
  float* left = floats(state.left);
  float* right = floats(state.right);
  for (auto& matrix : state.matrices) {
    matrix.left = {left, options_.rank, matrix.gradient.rows};
    matrix.right = {right, options_.rank, matrix.gradient.columns};
    left += matrix.left.rows * matrix.left.columns;
    right += matrix.right.rows * matrix.right.columns;
  }
  if (options_.error_feedback) state.errors.resize(bucket.gradients.elements);
}

/// Q to begin with, the same on every rank.
void PowerSgd::fill_right(const BucketView& bucket, BucketState& state) {
  if (!state.has_right || !options_.warm_start) {
    const auto step = static_cast<std::uint64_t>(options_.warm_start ? 0 : step_);
    const MatrixView all = {floats(state.right), 1, state.right.elements};
    fill_random(all, first_matrices_seed(options_.seed, bucket.index, step));
    state.has_right = true;
  }
  for (const auto& matrix : state.matrices) orthonormalise_rows(matrix.right);
}

void PowerSgd::start(const BucketView& bucket, Work& work) {
  if (bucket.gradients.device.kind != Device::Kind::cpu)
    throw Error(Errc::usage, "bucket hook: PowerSGD works in the memory of the CPU only");
  step_ = steps_.before(bucket);
  BucketState& state = states_[bucket.index];
  state.is_exact = step_ < options_.start_step || bucket.gradients.type != DataType::float32;
  if (state.is_exact) {
    work = group_.all_reduce(bucket.gradients, bucket.op);
    return;
  }
  const bool is_new = state.matrices.empty() && state.others.empty();
  if (is_new || state.layout != bucket.layout) {
    lay_out(bucket, state);
    state.is_exact = false;
  }
  float* gradients = floats(bucket.gradients);
  for (std::size_t i = 0; i < state.errors.size(); ++i) gradients[i] += state.errors[i];

  float* copy = floats(state.other);
  for (const Buffer& other : state.others) {
    if (other.elements > 0) std::memcpy(copy, other.data, other.bytes());
    copy += other.elements;
  }
  if (state.other.elements > 0) state.other_work = group_.all_reduce(state.other, bucket.op);
  work = state.other_work;
  if (state.matrices.empty()) return;
  fill_right(bucket, state);
  for (const auto& matrix : state.matrices) {
    project_columns(matrix.gradient, matrix.right, matrix.left);
  }
  work = group_.all_reduce(state.left, ReduceOp::average);
}

/// Of a work that nobody else knows: when this gives up, it has ended all the same, for its memory
/// is the state's.
void PowerSgd::wait(const Work& work, Deadline deadline) {
  try {
    work.wait(deadline);
  } catch (...) {
    group_.abort("its bucket hook PowerSGD gave up");
    wait_in_any_case(work);
    throw;
  }
}

void PowerSgd::complete(const BucketView& bucket, Deadline deadline) {
  BucketState& state = states_[bucket.index];
  if (state.is_exact) return;
  if (!state.matrices.empty()) {
    for (const auto& matrix : state.matrices) {
      orthonormalise_rows(matrix.left);
      project_rows(matrix.gradient, matrix.left, matrix.right);
    }
    wait(group_.all_reduce(state.right, ReduceOp::average), deadline);
  }
  state.other_work.wait(deadline);
  state.other_work = Work();
  expand(bucket, state);
}

/// Replaces the bucket's gradients by what all ranks have, and keeps what that misses of them.
void PowerSgd::expand(const BucketView& bucket, BucketState& state) const {
  const float factor = bucket.op == ReduceOp::sum ? static_cast<float>(group_.size()) : 1;
  std::vector<float> row;
  for (const auto& matrix : state.matrices) {
    row.resize(matrix.gradient.columns);
    for (std::size_t i = 0; i < matrix.gradient.rows; ++i) {
      expand_row(matrix.left, matrix.right, i, row);
      const auto gradient = matrix.gradient.row(i);
      if (!state.errors.empty()) {
        float* errors = state.errors.data() + (gradient.data() - floats(bucket.gradients));
        for (std::size_t j = 0; j < row.size(); ++j) errors[j] = gradient[j] - row[j];
      }
      for (std::size_t j = 0; j < row.size(); ++j) gradient[j] = factor * row[j];
    }
  }
  const float* copy = floats(state.other);
  for (const Buffer& other : state.others) {
    if (other.elements > 0) std::memcpy(other.data, copy, other.bytes());
    copy += other.elements;
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
                              Deadline deadline) { state->complete(bucket, deadline); }};
}

}  // namespace ddprun
