// The buckets of a reducer and their way through a step: complete, launched in order, done. Knows
// no parameters. complete() may be called by any thread, the rest by the reducer's.
#pragma once

#include "worker_runtime/ddp/tensor_work.hpp"
#include <ddprun/bucket_hook.hpp>
#include <ddprun/step_timeline.hpp>

#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

class BucketQueue {
 public:
  using Clock = Deadline::Clock;

  /// What is done to a complete bucket: `hook`, or an all-reduce.
  struct Exchange {
    bool pre_divide = false;
    std::optional<BucketHook> hook = std::nullopt;
  };

  /// A group of one rank is never called. `tensors` outlive this object.
  BucketQueue(ProcessGroup group, const TensorWork& tensors, Exchange exchange);

  /// Aborts the group if works are under way that nobody has waited for, and waits for their end:
  /// the communication thread and the device must not be left with memory that is about to go.
  ~BucketQueue();
  BucketQueue(const BucketQueue&) = delete;
  BucketQueue& operator=(const BucketQueue&) = delete;

  /// Between steps. The memory of the views must outlive this object or the next call.
  void lay_out(std::span<const BucketView> views);

  /// Averages are over `ranks` ranks, which may be fewer than the group has: then the gradients of
  /// the others are zero.
  void begin(int ranks);

  /// Bucket `index` may be reduced, on a device once `stream` has come here. Launches it if those
  /// before it have been, and those after it that only waited for it. What fails is thrown by
  /// wait() and hold().
  void complete(std::size_t index, void* stream);

  /// Makes wait() wait for `work` too, and the destructor.
  void add(Work work);

  /// Blocks until all is done; what a device still has to do to a bucket then is given to `stream`.
  void wait(void* stream, Deadline deadline);

  /// What `stream` is given from now on begins when all is done. Blocks for works of the host only.
  void hold(void* stream, Deadline deadline);

  /// After hold(): blocks until all is done.
  void await(Deadline deadline);

  /// Ends the group: this rank does not finish its step.
  void abort(const std::string& reason);

  /// Of a step that is done.
  std::vector<BucketTimeline> timeline() const;

  Clock::time_point begin_time() const { return begin_time_; }
  /// Since then.
  double seconds(Clock::time_point time) const {
    return std::chrono::duration<double>(time - begin_time_).count();
  }

 private:
  struct Bucket {
    BucketView view;
    bool is_complete = false;
    Clock::time_point ready_time;
    Clock::time_point launched_time;
    Clock::time_point done_time;
    void* stream = nullptr;  ///< the gradients are there when it has come to where it was told
    Work work;
  };

  void launch(Bucket& bucket);
  Work start(const BucketView& view);
  void divide(const Buffer& gradients) const;
  template <typename Await>
  void end_all(void* stream, Deadline deadline, const Await& await);
  void end(Bucket& bucket, Deadline deadline);
  void await_hook(Deadline deadline);

  ProcessGroup group_;
  const TensorWork& tensors_;
  const Exchange exchange_;
  int ranks_ = 1;  ///< of this step's averages
  Clock::time_point begin_time_;
  std::mutex mutex_;  // for all below
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;           ///< launched are those before it
  std::vector<Work> other_works_;  ///< in memory that is not ours
  std::exception_ptr launch_error_;
  bool is_held_ = false;  ///< the device has all, and somebody waits for it there
};

}  // namespace ddprun
