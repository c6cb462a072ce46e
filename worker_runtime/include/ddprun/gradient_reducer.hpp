// Averages gradients over the workers during the backward pass. Gradients are stored in
// a few contiguous buckets in reverse order of definition, which is approximately the
// order in which a backward pass computes them. A bucket is all-reduced as soon as its
// last gradient is ready. All parameters are in host memory or on the group's CUDA
// device. begin_forward(), begin(), finish() and join() may be called by one thread at a
// time; ready() and unused() by any thread. No other thread may call the group during a
// step.
// On a device, the reducer works on streams: ready() takes the stream that computes a gradient,
// finish() the stream that uses the gradients. All other work runs on the group's stream
// (set_stream()). The host waits only where a function's comment says so. Streams must live until
// the next finish().
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

/// Assignment of parameters to buckets by PyTorch's rule: a bucket is complete when it reaches its
/// limit, which it may exceed. Buckets have one data type; each type's first bucket is small.
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

/// Returns the assignment of parameters to buckets. `order` is the expected order of gradients, a
/// permutation of all parameters; if empty, the reverse order of definition is used. The first
/// limit is capped by the other one. Pure.
BucketPlan plan_buckets(std::span<const Parameter> parameters, const ReducerOptions& options,
                        std::span<const std::size_t> order = {});

/// Averages gradients in buckets during the backward pass.
class GradientReducer {
 public:
  /// `state` lists further tensors that are broadcast from rank 0 (BatchNorm's running statistics,
  /// ...): at construction and, with broadcast_buffers, before each step. Blocks. Throws
  /// Error{Errc::usage} that names the parameter and the ranks if arguments differ. Makes no calls
  /// to a group of one rank.
  GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                  std::vector<Buffer> state = {}, ReducerOptions options = {});
  GradientReducer(GradientReducer&&) noexcept;
  GradientReducer& operator=(GradientReducer&&) noexcept;
  /// Aborts the group during an unfinished step, so that finish() fails on the other ranks.
  ~GradientReducer();

  /// Returns the gradient of parameter `index` in its bucket. It has the elements and type of the
  /// values (float32 with accumulate_in_float32). Valid during the reducer's lifetime, or until
  /// layout() changes with rebuild_buckets. The backward pass adds to it between zero_gradients()
  /// and finish(), unless Parameter::gradient is set.
  Buffer gradient(std::size_t index) const;

  /// Returns a pointer that keeps the bucket memory of parameter `index` alive after a rebuild or
  /// the end of the reducer.
  std::shared_ptr<const void> memory(std::size_t index) const;

  /// Returns the current buckets.
  const BucketPlan& plan() const;

  /// Returns the number of rebuilds: 0, then 1 from begin_forward() of the step after the first
  /// observed step.
  std::size_t layout() const;

  /// Zeroes all gradients, including those outside of buckets. Call only between steps. On a
  /// device, this runs on the group's stream after the work of the last finish()'s stream; a
  /// backward pass on another stream must wait for it.
  void zero_gradients();

  /// Starts a step before its forward pass: rebuilds the buckets if due, broadcasts buffers and
  /// checks for ranks without input. Blocks until these are done. Optional, because begin() does
  /// the same, but required if the forward pass uses the buffers. With UnevenInputs::throw_early,
  /// throws Error{Errc::usage} when a rank has no more input.
  void begin_forward(bool synchronise = true);

  /// Starts the backward pass of a step. If `synchronise` is false, gradients only accumulate on
  /// this rank (PyTorch's no_sync). The argument must equal that of begin_forward().
  void begin(bool synchronise = true);

  /// Marks the gradient of parameter `index` as complete. Must be called once per step and
  /// parameter (with static_graph, as often as in the first step); another call throws
  /// Error{Errc::usage}. Blocks only while 1024 works of the group are queued. Failures of other
  /// ranks are thrown by finish().
  void ready(std::size_t index);
  /// For devices: the gradient is complete after the current work on `stream`, a cudaStream_t.
  /// ready() without a stream uses the group's stream.
  void ready(std::size_t index, void* stream);

  /// Calls ready() for each of `indices`.
  void ready_all(std::span<const std::size_t> indices);

  /// Marks that parameter `index` gets no gradient in this step, in place of ready(), so that its
  /// bucket does not wait for finish(). Throws Error{Errc::usage} without find_unused_parameters.
  void unused(std::size_t index);

  /// Discards what steps without synchronisation have added to the gradient of parameter `index`.
  /// It then counts as zero and unused, unless it is ready in this step. Call before unused().
  void discard(std::size_t index);

  /// Blocks until all gradients are averaged; does not block without synchronisation. With
  /// find_unused_parameters, parameters that are not ready count as zero, or as the sum of steps
  /// without synchronisation, and is_used() returns whether any rank used them. Otherwise such
  /// parameters throw Error{Errc::usage} that names them, and the step does not end. Throws
  /// failures of collectives (PeerFailed, Errc::timeout at the deadline, ...), exceptions of a
  /// hook, and, on drift, Error{Errc::usage} that names rank and parameter; the reducer must then
  /// be destroyed.
  StepTimeline finish(Deadline deadline = Deadline::never());

  /// For devices: like finish() above, but returns before the gradients are averaged. Later work on
  /// `stream`, a cudaStream_t, uses averaged gradients. Later failures on any rank are thrown by
  /// the functions of the next step and leave the gradients undefined; call synchronise() before
  /// saving results. The timeline ends with this call. Blocks only for the collectives of
  /// find_unused_parameters, drift_check_steps and uneven_inputs.
  StepTimeline finish(void* stream);

  /// After finish(stream), blocks until the step's gradients are averaged and throws its failures;
  /// call it before writing a checkpoint. After a captured step, blocks until the stream has
  /// completed its current work, such as launches of the graph, and throws failures of the group.
  void synchronise(Deadline deadline = Deadline::never());

  /// Returns true if any rank marked the parameter as ready. Valid after finish() with
  /// find_unused_parameters or static_graph.
  bool is_used(std::size_t index) const;

  /// Returns data of the reducer and its last synchronised steps, under the names of PyTorch's
  /// logging data. The order of readiness is from the observed step (rebuild_buckets). Call only
  /// between steps.
  DdpLoggingData logging_data() const;

  /// Used with UnevenInputs by a rank without further input. Takes part in the steps of the other
  /// ranks with zero gradients; blocks until all ranks have joined. All ranks then have the
  /// parameters and buffers of a rank that took the last step, and may continue. Calls `after_step`
  /// after each such step, for collectives of the training loop. With throw_early, throws
  /// Error{Errc::usage} if any rank had more input.
  void join(const std::function<void()>& after_step = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
