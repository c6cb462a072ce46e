// Averages gradients over the workers while the backward pass goes on. Gradients live in a few
// contiguous buckets in reverse order of definition, which is about the order in which a backward
// pass makes them; a bucket is all-reduced as soon as its last gradient is ready. Knows no tensor
// library: parameters are pointers and counts in the memory of the CPU. One thread at a time drives
// it (begin, finish); ready() may be called by any thread, and the group by no other one while a
// step is under way.
#pragma once

#include <ddprun/process_group.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

/// A parameter whose gradient is to be averaged. The order of definition must be the same on every
/// rank.
struct Parameter {
  std::string name;
  Buffer values;  ///< the weights, owned by the caller
  /// Its dimensions, whose product is values.elements. They are compared across the ranks and
  /// otherwise not used; empty means one dimension.
  std::vector<std::size_t> shape = {};
};

struct ReducerOptions {
  /// The first bucket is small so that communication starts early in the backward pass (PyTorch's
  /// default).
  std::size_t first_bucket_bytes = 1 << 20;
  std::size_t bucket_bytes_cap = 25 << 20;
  /// average or sum.
  ReduceOp op = ReduceOp::average;
  /// Compare names, types and counts of the parameters across the ranks at construction.
  bool verify_parameters = true;
  /// Give every rank rank 0's parameters and buffers at construction.
  bool broadcast_state = true;
  /// Allow backward passes in which not every parameter gets a gradient: one more small collective
  /// a step tells which parameters no rank used.
  bool find_unused_parameters = false;
};

/// What happened to one bucket in a step. Seconds since begin().
struct BucketTimeline {
  std::size_t index = 0;
  std::size_t bytes = 0;
  double ready_seconds = 0;     ///< its last gradient was ready
  double launched_seconds = 0;  ///< its all-reduce was queued
  /// Its all-reduce had ended, as far as anybody looked: at the next complete bucket, or in
  /// finish(). Exact for what finish() waited for.
  double done_seconds = 0;
};

struct StepTimeline {
  std::vector<BucketTimeline>
      buckets;                       ///< in launch order; empty for a step without synchronisation
  double finish_called_seconds = 0;  ///< the backward pass was over
  double finished_seconds =
      0;  ///< the gradients could be used: what is beyond finish_called is exposed

  double exposed_seconds() const { return finished_seconds - finish_called_seconds; }
};

/// Which parameters share a bucket, in launch order and in the order in which their gradients lie
/// in it, one directly after another. The rule is PyTorch's: a bucket is closed when it reaches its
/// limit, so it may overshoot; one data type to a bucket, each with its own small first one.
struct BucketPlan {
  struct Bucket {
    std::vector<std::size_t> parameters;
    DataType type = DataType::float32;
    std::size_t elements = 0;

    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;

  bool operator==(const BucketPlan&) const = default;
};

/// Pure. The first limit is at most the cap.
BucketPlan plan_buckets(std::span<const Parameter> parameters, const ReducerOptions& options);

class GradientReducer {
 public:
  /// `state` are further tensors to broadcast at construction (BatchNorm's running statistics,
  /// ...). Blocks; throws Error{Errc::usage} naming the parameter and the ranks that differ. A
  /// group of one rank is never called.
  GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                  std::vector<Buffer> state = {}, ReducerOptions options = {});
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;
  /// Within a step that was not finished, it aborts the group: the other ranks' finish() fails.
  ~GradientReducer();

  /// Where the gradient of parameter `index` must be written: same count and type as its values,
  /// inside a bucket, valid for the reducer's life. Between zero_gradients() and finish() the
  /// backward pass adds to it.
  Buffer gradient(std::size_t index) const;

  const BucketPlan& plan() const;

  /// Between steps only.
  void zero_gradients();

  /// Starts a step. With `synchronise` false gradients only accumulate on this rank (PyTorch's
  /// no_sync).
  void begin(bool synchronise = true);

  /// The gradient of parameter `index` is complete. Once per step and parameter; a second time
  /// throws Errc::usage. Never waits for other ranks, and leaves their failures to finish().
  void ready(std::size_t index);

  /// Waits until every gradient has been averaged. Parameters that were not ready are an
  /// Error{Errc::usage} naming them, which leaves the step open, unless find_unused_parameters:
  /// then they count as zero here, or as what steps without synchronisation have added, and
  /// is_used() tells whether any rank used them. Without synchronisation nothing is awaited nor
  /// asked. Throws what a collective failed with (PeerFailed, Errc::timeout at the deadline, ...);
  /// after that the reducer can only be destroyed.
  StepTimeline finish(Deadline deadline = Deadline::never());

  /// After finish() with find_unused_parameters: whether any rank marked the parameter ready.
  bool is_used(std::size_t index) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
