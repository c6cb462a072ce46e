// Runs the collectives of a reducer's buckets in order, each once its bucket and all earlier ones
// are complete. Any thread may call complete(); the reducer's thread calls the rest.
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

  /// Operation on a complete bucket: `hook`, or an all-reduce.
  struct Exchange {
    bool pre_divide = false;
    std::optional<BucketHook> hook = std::nullopt;
  };

  /// Does not use a group of one rank. `tensors` must outlive this object.
  BucketQueue(ProcessGroup group, const TensorWork& tensors, Exchange exchange);

  /// Aborts the group if works have not been awaited, and waits for their end, since the
  /// communication thread and the device use memory that is about to be freed.
  ~BucketQueue();
  BucketQueue(const BucketQueue&) = delete;
  BucketQueue& operator=(const BucketQueue&) = delete;

  /// Must be called between steps. The memory of the views must outlive this object or the next
  /// call.
  void lay_out(std::span<const BucketView> views);

  /// Begins a step. `ranks`: divisor of averages, which may be lower than the group's size if the
  /// gradients of the other ranks are zero.
  void begin(int ranks);

  /// Marks bucket `index` as complete, on a device after the current work on `stream`. Launches it
  /// and later complete buckets if all earlier buckets have been launched. wait() and hold() throw
  /// failures.
  void complete(std::size_t index, void* stream);

  /// Makes wait() and the destructor wait for `work`.
  void add(Work work);

  /// Blocks until all collectives have ended; remaining device operations on buckets run on
  /// `stream`.
  void wait(void* stream, Deadline deadline);

  /// Makes later work on `stream` wait for all collectives. Blocks for works of the host only.
  void hold(void* stream, Deadline deadline);

  /// Must be called after hold(): blocks until all collectives have ended.
  void await(Deadline deadline);

  /// Aborts the group, since this rank does not complete its step.
  void abort(const std::string& reason);

  /// Returns the times of the last completed step.
  std::vector<BucketTimeline> timeline() const;

  Clock::time_point begin_time() const { return begin_time_; }
  /// Returns the seconds from begin() to `time`.
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
    void* stream = nullptr;  ///< stream whose work at complete() precedes the collective
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
  int ranks_ = 1;  ///< divisor of averages in this step
  Clock::time_point begin_time_;
  std::mutex mutex_;  // guards the members below
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;           ///< index of the first bucket that is not launched
  std::vector<Work> other_works_;  ///< works of add()
  std::exception_ptr launch_error_;
  bool is_held_ = false;  ///< the device has all collectives, and a stream waits for them
};

}  // namespace ddprun
