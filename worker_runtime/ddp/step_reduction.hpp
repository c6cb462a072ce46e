// The gradients of a step on their way from ready to reduced: into the buckets, through the queue
// and back out. Knows what a step is, not when one may begin. ready() and unused() may be called by
// any thread within a step, the rest by the reducer's.
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
  /// `parameters`, all on one device, must outlive this object.
  StepReduction(ProcessGroup group, std::span<const Parameter> parameters,
                const ReducerOptions& options, BucketPlan plan);

  const BucketLayout& layout() const { return *layout_; }
  const Readiness& readiness() const { return readiness_; }
  BucketQueue& queue() { return queue_; }

  /// Between steps. Gradients keep their values and change their places.
  void lay_out(BucketPlan plan);

  /// Between steps.
  void zero();
  /// After hold(): blocks until what was reduced is there.
  void synchronise(Deadline deadline);

  const TensorWork& tensors() const { return tensors_; }

  /// Of the step under way: by which all goes that nobody has told another stream for.
  void* stream() const { return stream_; }

  /// What stands for the capture that the step under way is part of; 0: it is part of none.
  std::uint64_t capture() const { return capture_; }
  /// Throws Error{Errc::usage} if `stream` is not part of that, or is part of one where there is
  /// none.
  void require_same_capture(void* stream) const;

  /// An average of a synchronised step is over `ranks` ranks. `observe` keeps the order in which
  /// gradients become ready.
  void begin(bool synchronise, int ranks, bool observe);

  /// On a device the gradient is there once `stream` has come here.
  Readiness::Mark ready(std::size_t parameter, void* stream);
  Readiness::Mark unused(std::size_t parameter);
  void discard(std::size_t parameter) { readiness_.forget(parameter); }

  /// Parameters whose gradients are not complete.
  std::vector<std::size_t> missing() const;

  /// Completes a step without synchronisation.
  void end_accumulation();
  /// Completes the step in which readiness is counted; tells all ranks which parameters are used.
  void end_count();
  /// Gradients that are not complete count as zero, or as what was accumulated; tells all ranks
  /// which parameters are used.
  void settle();
  /// All gradients of the step are zero.
  void shadow(bool shares_used);

  /// When all gradients are complete: blocks until they are reduced, and where the caller wants
  /// them.
  void wait(Deadline deadline);
  /// The same, but what `stream` is given from now on waits for it.
  void hold(void* stream, Deadline deadline);

  /// By any rank in the last step in which that was shared; else true.
  bool is_used(std::size_t parameter) const { return used_[parameter] != 0; }

 private:
  /// On a device: what has to come before the bucket's collective.
  struct Gathering {
    std::vector<void*> streams;      ///< on which gradients of the bucket were made, each once
    std::vector<TensorCopy> copies;  ///< from the callers' memory
    std::vector<TensorCopy> sums;    ///< the same, of another type than the bucket's
  };

  void note(std::size_t parameter, void* stream);
  void take_own(std::size_t parameter, void* stream);
  void count_down(std::size_t parameter, void* stream);
  void gather(std::size_t bucket, void* stream);
  void settle_one(std::size_t parameter);
  void share_used();
  void give_own(void* stream);

  ProcessGroup group_;
  std::span<const Parameter> parameters_;
  const TensorWork tensors_;
  const CollectiveSequence sequence_;
  ReduceOp op_;
  bool is_synchronising_ = false;
  Readiness readiness_;
  std::unique_ptr<BucketLayout> layout_;
  std::vector<std::int32_t> used_;
  void* stream_ = nullptr;             ///< the group's, in the step under way
  std::uint64_t capture_ = 0;          ///< of that stream
  std::optional<void*> held_;          ///< the stream of the last step's gradients
  std::mutex mutex_;                   ///< for what follows
  std::vector<Gathering> gatherings_;  ///< by bucket
  BucketQueue queue_;  // last, because it may still be at work in the others' memory
};

}  // namespace ddprun
