// Averages gradients over the workers while the backward pass goes on. Gradients live in a few
// contiguous buckets in reverse order of definition, which is about the order in which a backward
// pass makes them; a bucket is all-reduced as soon as its last gradient is ready. Knows no tensor
// library: parameters are pointers and counts in the memory of the CPU, or all on the group's CUDA
// device. One thread at a time drives it (begin_forward, begin, finish, join); ready() and unused()
// may be called by any thread, and the group by no other one while a step is under way.
//
// On a device what the reducer does begins and ends on streams: gradients are ready where ready()
// says, and used where finish() says. All else is done on the group's stream (set_stream()), and
// the host waits only where that is said. Streams must live until the next finish().
//
// A step from begin() to finish(stream), zero_gradients() included, may be captured into a CUDA
// graph with the group's stream, after a step or two that were not (three with rebuild_buckets and
// static_graph). What has a part for the host in each step (hooks, find_unused_parameters without
// static_graph, uneven_inputs, drift_check_steps, buffers on the host) is then Error{Errc::usage}
// of begin_forward() or begin(). Launches are no steps here; the graph must be gone before the
// reducer.
#pragma once

#include <ddprun/bucket_hook.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/reducer_options.hpp>
#include <ddprun/step_timeline.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ddprun {

/// Which parameters share a bucket, in launch order and in the order in which their gradients lie
/// in it, one directly after another. The rule is PyTorch's: a bucket is closed when it reaches its
/// limit, so it may overshoot; one data type to a bucket, each with its own small first one.
struct BucketPlan {
  /// The parameters of one bucket.
  struct Bucket {
    std::vector<std::size_t> parameters;  ///< their indices, in the order of their gradients
    DataType type = DataType::float32;    ///< of the gradients
    std::size_t elements = 0;             ///< of all parameters

    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;  ///< in launch order

  bool operator==(const BucketPlan&) const = default;
};

/// Pure. The first limit is at most the cap. `order` is a permutation of all parameters: that in
/// which their gradients are expected; if it is empty, from the last-defined to the first.
BucketPlan plan_buckets(std::span<const Parameter> parameters, const ReducerOptions& options,
                        std::span<const std::size_t> order = {});

/// Averages gradients in buckets while the backward pass goes on.
class GradientReducer {
 public:
  /// `state` are further tensors that all ranks are to have from rank 0 (BatchNorm's running
  /// statistics, ...): at construction, and before each step with broadcast_buffers. Blocks; throws
  /// Error{Errc::usage} naming the parameter and the ranks that differ. A group of one rank is
  /// never called.
  GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                  std::vector<Buffer> state = {}, ReducerOptions options = {});
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;
  /// Within a step that was not finished, it aborts the group: the other ranks' finish() fails.
  ~GradientReducer();

  /// Where the gradient of parameter `index` lies: as many elements as its values, of their type
  /// (float32 with accumulate_in_float32), inside a bucket. Valid for the reducer's life, with
  /// rebuild_buckets until layout() changes. Between zero_gradients() and finish() the backward
  /// pass adds to it, unless the parameter has memory of its own for that.
  Buffer gradient(std::size_t index) const;

  /// The memory in which that is; who keeps it may look there also after a rebuild, or after the
  /// reducer's end.
  std::shared_ptr<const void> memory(std::size_t index) const;

  /// The buckets as they are now.
  const BucketPlan& plan() const;

  /// How often buckets were rebuilt: 0, then 1 from begin_forward() of the step after the first
  /// that was observed.
  std::size_t layout() const;

  /// Between steps only. Those outside of the buckets too. On a device, by the group's stream, once
  /// the stream of the last finish() has come here; a backward pass on another stream has to wait
  /// for it.
  void zero_gradients();

  /// The forward pass of a step is about to begin: where due, rebuilds the buckets, gives all ranks
  /// rank 0's buffers and hears of ranks without input; blocks for that. Optional: begin() does the
  /// same, which is soon enough unless the forward pass uses the buffers. Throws
  /// Error{Errc::usage} with UnevenInputs::throw_early when a rank has no more input.
  void begin_forward(bool synchronise = true);

  /// Starts the backward pass of a step. With `synchronise` false gradients only accumulate on this
  /// rank (PyTorch's no_sync). Must be told the same as begin_forward().
  void begin(bool synchronise = true);

  /// The gradient of parameter `index` is complete. Once per step and parameter (with static_graph,
  /// as often as in the first step); once more throws Errc::usage. Does not wait for other ranks
  /// unless 1024 works of the group are queued, and leaves their failures to finish().
  void ready(std::size_t index);
  /// On a device: it is complete once `stream`, a cudaStream_t, has come here. Without one, the
  /// group's.
  void ready(std::size_t index, void* stream);

  /// ready() for each of these.
  void ready_all(std::span<const std::size_t> indices);

  /// Parameter `index` gets no gradient in this step: in place of ready(), and earlier than
  /// finish() would find out, so that its bucket need not wait. With find_unused_parameters only,
  /// else Errc::usage.
  void unused(std::size_t index);

  /// What steps without synchronisation have added to the gradient of parameter `index` is not
  /// wanted: unless it is ready in this step, it counts as zero and not used. Before unused().
  void discard(std::size_t index);

  /// Waits until every gradient has been averaged. Parameters that were not ready are an
  /// Error{Errc::usage} naming them, which leaves the step open, unless find_unused_parameters:
  /// then they count as zero here, or as what steps without synchronisation have added, and
  /// is_used() tells whether any rank used them. Without synchronisation nothing is awaited nor
  /// asked. Throws what a collective failed with (PeerFailed, Errc::timeout at the deadline, ...),
  /// what a hook threw, and Errc::usage naming rank and parameter if drift was found; after that
  /// the reducer can only be destroyed.
  StepTimeline finish(Deadline deadline = Deadline::never());

  /// On a device: the same, but waits for nothing on it; what `stream`, a cudaStream_t, is given
  /// from now on finds every gradient averaged. What fails afterwards, on this rank or another one,
  /// is thrown by the next step's functions, and gradients are then undefined: before anything
  /// made of them is kept, there is synchronise(). The timeline ends where the stream was told.
  /// Blocks for what find_unused_parameters, drift_check_steps and uneven_inputs ask of the hosts.
  StepTimeline finish(void* stream);

  /// After finish(stream): blocks until the step's gradients are averaged. Throws what that failed
  /// with. To be called before a checkpoint is written. After a step that was captured: blocks
  /// until that stream has done what it has been given, launches of the graph for example, and
  /// throws what the group has failed with.
  void synchronise(Deadline deadline = Deadline::never());

  /// After finish() with find_unused_parameters or static_graph: whether any rank marked the
  /// parameter ready.
  bool is_used(std::size_t index) const;

  /// What is known of the reducer and its last synchronised steps, by the names of PyTorch's
  /// logging data. The order of readiness is that of the observed step (rebuild_buckets). Between
  /// steps only.
  DdpLoggingData logging_data() const;

  /// This rank has no more input, others may have: with UnevenInputs. Blocks and takes part in the
  /// others' steps with zero gradients until all ranks are here; then all have the parameters and
  /// buffers of a rank that has taken the last step, and may go on. `after_step` is called after
  /// each such step, for collectives that the training loop itself calls there. With throw_early it
  /// throws Error{Errc::usage} if any rank had more input.
  void join(const std::function<void()>& after_step = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
