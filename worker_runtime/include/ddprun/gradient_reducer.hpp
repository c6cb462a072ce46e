// Averages gradients over the workers during the backward pass. Gradients are in a few contiguous
// buckets in reverse order of definition, which is about the order in which a backward pass
// computes them. A bucket is all-reduced as soon as its last gradient is ready. Parameters are
// pointers and element counts, all in host memory or all on the group's CUDA device. One thread at
// a time calls begin_forward(), begin(), finish() and join(); any thread may call ready() and
// unused(). No other thread may call the group during a step.
//
// On a device the reducer works on streams: ready() names the stream on which a gradient is
// computed, finish() that on which gradients are used. Other work is on the group's stream
// (set_stream()). The host waits only where a function says so. Streams must live until the next
// finish().
//
// A step from begin() to finish(stream), including zero_gradients(), may be captured into a CUDA
// graph with the group's stream, after two steps without capture (three with rebuild_buckets and
// static_graph). Features that involve the host in each step (hooks, find_unused_parameters without
// static_graph, uneven_inputs, drift_check_steps, buffers on the host) then make begin_forward() or
// begin() throw Error{Errc::usage}. Launches of the graph are not steps of the reducer. The graph
// must be destroyed before the reducer.
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

/// Assignment of parameters to buckets. The rule is PyTorch's: a bucket is complete when it reaches
/// its limit, which it may exceed; it has one data type, and each type has a small first bucket.
struct BucketPlan {
  /// A bucket.
  struct Bucket {
    std::vector<std::size_t> parameters;  ///< indices, in the order of the contiguous gradients
    DataType type = DataType::float32;    ///< type of the gradients
    std::size_t elements = 0;             ///< total number of elements

    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;  ///< in launch order

  bool operator==(const BucketPlan&) const = default;
};

/// Returns the assignment of parameters to buckets. `order`: expected order of the gradients, a
/// permutation of all parameters; empty: reverse order of definition. The first limit is at most
/// the cap. Pure.
BucketPlan plan_buckets(std::span<const Parameter> parameters, const ReducerOptions& options,
                        std::span<const std::size_t> order = {});

/// Averages gradients in buckets during the backward pass.
class GradientReducer {
 public:
  /// `state`: further tensors that are broadcast from rank 0 (BatchNorm's running statistics, ...),
  /// at construction and, with broadcast_buffers, before each step. Blocks. Throws
  /// Error{Errc::usage} that names the parameter and the ranks if arguments differ. Does not call a
  /// group of one rank.
  GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                  std::vector<Buffer> state = {}, ReducerOptions options = {});
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;
  /// Aborts the group during an unfinished step, so that finish() fails on the other ranks.
  ~GradientReducer();

  /// Returns the gradient of parameter `index` in its bucket, with the elements and type of its
  /// values (float32 with accumulate_in_float32). Valid for the reducer's life; with
  /// rebuild_buckets until layout() changes. The backward pass adds to it between zero_gradients()
  /// and finish(), unless Parameter::gradient is set.
  Buffer gradient(std::size_t index) const;

  /// Returns the bucket's memory, which the pointer keeps alive after a rebuild or the reducer's
  /// end.
  std::shared_ptr<const void> memory(std::size_t index) const;

  /// Returns the current buckets.
  const BucketPlan& plan() const;

  /// Returns the number of rebuilds: 0, then 1 from begin_forward() of the step after the first
  /// observed one.
  std::size_t layout() const;

  /// Zeroes all gradients, including those outside of buckets. Between steps only. On a device, on
  /// the group's stream, after the work of the last finish()'s stream; a backward pass on another
  /// stream must wait for it.
  void zero_gradients();

  /// Starts a step before its forward pass: if due, rebuilds the buckets, broadcasts buffers and
  /// checks for ranks without input. Blocks for these. Optional, since begin() does the same;
  /// required if the forward pass uses the buffers. With UnevenInputs::throw_early, throws
  /// Error{Errc::usage} when a rank has no more input.
  void begin_forward(bool synchronise = true);

  /// Starts the backward pass of a step. If `synchronise` is false, gradients only accumulate on
  /// this rank (PyTorch's no_sync). The argument must equal that of begin_forward().
  void begin(bool synchronise = true);

  /// Marks the gradient of parameter `index` as complete. To be called once per step and parameter
  /// (with static_graph, as often as in the first step); a further call throws Error{Errc::usage}.
  /// Does not block unless 1024 works of the group are queued. Failures of other ranks are thrown
  /// by finish().
  void ready(std::size_t index);
  /// On a device: the gradient is complete after the current work on `stream`, a cudaStream_t.
  /// Without one, on the group's stream.
  void ready(std::size_t index, void* stream);

  /// Calls ready() for each of `indices`.
  void ready_all(std::span<const std::size_t> indices);

  /// Marks that parameter `index` gets no gradient in this step, in place of ready(), so that its
  /// bucket does not wait for finish(). Throws Error{Errc::usage} without find_unused_parameters.
  void unused(std::size_t index);

  /// Discards what steps without synchronisation have added to the gradient of parameter `index`:
  /// it counts as zero and unused, unless it is ready in this step. Before unused().
  void discard(std::size_t index);

  /// Blocks until all gradients are averaged. Parameters that are not ready: with
  /// find_unused_parameters, they count as zero, or as the sum of steps without synchronisation,
  /// and is_used() returns whether any rank used them; otherwise throws Error{Errc::usage} that
  /// names them and does not end the step. Without synchronisation it does not block. Throws
  /// failures of collectives (PeerFailed, Errc::timeout at the deadline, ...), exceptions of a
  /// hook, and Error{Errc::usage} that names rank and parameter on drift; after these the reducer
  /// can only be destroyed.
  StepTimeline finish(Deadline deadline = Deadline::never());

  /// On a device: the same without waiting for it. Later work on `stream`, a cudaStream_t, uses
  /// averaged gradients. Later failures, on any rank, are thrown by the functions of the next step,
  /// and gradients are then undefined; call synchronise() before results are saved. The timeline
  /// ends with this call. Blocks for the collectives of find_unused_parameters, drift_check_steps
  /// and uneven_inputs.
  StepTimeline finish(void* stream);

  /// After finish(stream): blocks until the step's gradients are averaged, and throws failures. To
  /// be called before a checkpoint is written. After a captured step: blocks until the stream has
  /// completed its current work, such as launches of the graph, and throws failures of the group.
  void synchronise(Deadline deadline = Deadline::never());

  /// After finish() with find_unused_parameters or static_graph: returns true if any rank marked
  /// the parameter as ready.
  bool is_used(std::size_t index) const;

  /// Returns data of the reducer and its last synchronised steps by the names of PyTorch's logging
  /// data. The order of readiness is that of the observed step (rebuild_buckets). Between steps
  /// only.
  DdpLoggingData logging_data() const;

  /// With UnevenInputs, on a rank without further input. Blocks and takes part in the steps of the
  /// other ranks with zero gradients until all ranks have joined. All ranks then have the
  /// parameters and buffers of a rank that took the last step, and may continue. Calls `after_step`
  /// after each such step, for collectives of the training loop. With throw_early, throws
  /// Error{Errc::usage} if any rank had more input.
  void join(const std::function<void()>& after_step = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
