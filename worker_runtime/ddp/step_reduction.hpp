// Reduction of a step's gradients: copies them into buckets, runs the queue, and copies results
// back. Any thread may call ready() and unused() within a step; the reducer's thread calls the
// rest.
#pragma once

#include "worker_runtime/ddp/bucket_layout.hpp"
#include "worker_runtime/ddp/bucket_queue.hpp"
#include "worker_runtime/ddp/readiness.hpp"
#include <ddprun/gradient_reducer.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace ddprun {

class StepReduction {
 public:
  /// `parameters` must be on one device and outlive this object.
  StepReduction(ProcessGroup group, std::span<const Parameter> parameters,
                const ReducerOptions& options, BucketPlan plan);

  const BucketLayout& layout() const { return *layout_; }
  const Readiness& readiness() const { return readiness_; }
  BucketQueue& queue() { return queue_; }

  /// Must be called between steps. Gradients keep their values and change their memory.
  void lay_out(BucketPlan plan);

  /// Must be called between steps.
  void zero();
  /// Must be called after hold(): blocks until the gradients are reduced.
  void synchronise(Deadline deadline);

  const TensorWork& tensors() const { return tensors_; }

  /// Stream of the current step for work without another stream.
  void* stream() const { return stream_; }

  /// Identifier of the capture that contains the current step; 0 if none.
  std::uint64_t capture() const { return capture_; }
  /// Throws Error{Errc::usage} if `stream` is not in the same capture; without a capture, if it is
  /// in one.
  void require_same_capture(void* stream) const;

  /// Begins a step. `ranks`: divisor of averages in a synchronised step. `observe`: records the
  /// order in which gradients become ready.
  void begin(bool synchronise, int ranks, bool observe);

  /// On a device, the gradient is complete after the current work on `stream`.
  Readiness::Mark ready(std::size_t parameter, void* stream);
  Readiness::Mark unused(std::size_t parameter);
  void discard(std::size_t parameter) { readiness_.forget(parameter); }

  /// Returns the parameters with incomplete gradients.
  std::vector<std::size_t> missing() const;

  /// Completes a step without synchronisation.
  void end_accumulation();
  /// Completes the step in which readiness is counted; shares with all ranks which parameters are
  /// used.
  void end_count();
  /// Treats incomplete gradients as zero or as accumulated; shares with all ranks which parameters
  /// are used.
  void settle();
  /// Runs the step's collectives with zero gradients.
  void shadow(bool shares_used);

  /// Must be called when all gradients are complete. Blocks until they are reduced and in the
  /// caller's memory.
  void wait(Deadline deadline);
  /// Like wait(), but makes later work on `stream` wait instead of the caller.
  void hold(void* stream, Deadline deadline);

  /// Returns true if any rank used the parameter in the last step that shared the used parameters,
  /// or if no step has shared them.
  bool is_used(std::size_t parameter) const { return used_[parameter] != 0; }

 private:
  /// On a device: work that must precede the bucket's collective.
  struct Gathering {
    /// streams that produced gradients of the bucket, without duplicates
    std::vector<void*> streams;
    std::vector<TensorCopy> copies;  ///< from the caller's memory
    std::vector<TensorCopy> sums;    ///< from the caller's memory of another type
  };

  void note(std::size_t parameter, void* stream);
  void copy_in(std::size_t parameter, void* stream);
  void count_down(std::size_t parameter, void* stream);
  void gather(std::size_t bucket, void* stream);
  void settle_one(std::size_t parameter);
  void share_used();
  void copy_out(void* stream);

  ProcessGroup group_;
  std::span<const Parameter> parameters_;
  const TensorWork tensors_;
  const CollectiveSequence sequence_;
  ReduceOp op_;
  bool is_synchronising_ = false;
  Readiness readiness_;
  std::unique_ptr<BucketLayout> layout_;
  std::vector<std::int32_t> used_;
  void* stream_ = nullptr;             ///< the group's stream in the current step
  std::uint64_t capture_ = 0;          ///< capture of that stream
  std::optional<void*> held_;          ///< stream of the last step's gradients
  std::mutex mutex_;                   ///< guards the members below
  std::vector<Gathering> gatherings_;  ///< gatherings by bucket
  BucketQueue queue_;  // last, since its works may use the memory of the other members
};

}  // namespace ddprun
