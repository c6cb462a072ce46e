// The buckets of a reducer and their way through a step: complete, launched in order, done. Knows
// no parameters. complete() may be called by any thread, the rest by the reducer's.
#pragma once

#include <ddprun/gradient_reducer.hpp>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace ddprun {

class BucketQueue {
 public:
  using Clock = Deadline::Clock;

  /// Takes zeroed memory for each bucket from the group. A group of one rank is never called again.
  BucketQueue(ProcessGroup group, const BucketPlan& plan, ReduceOp op);

  /// Aborts the group if works are under way: the communication thread must not be left with memory
  /// that is about to go.
  ~BucketQueue();
  BucketQueue(const BucketQueue&) = delete;
  BucketQueue& operator=(const BucketQueue&) = delete;

  const ProcessGroup& group() const { return group_; }

  /// All of bucket `index`.
  const Buffer& gradients(std::size_t index) const { return buckets_[index].gradients; }

  void zero();

  /// Sends rank 0's content of all buckets, and of `others`, to the other ranks. Blocks.
  void broadcast(std::span<const Buffer> others);

  void begin();

  /// Bucket `index` may be reduced. Launches it if those before it have been, and those after it
  /// that only waited for it. What fails is thrown by wait().
  void complete(std::size_t index);

  /// Reduces `buffer`, which must outlive this object, after the buckets, all of which are
  /// complete.
  void append(Buffer buffer, ReduceOp op);

  /// Blocks until all is done.
  void wait(Deadline deadline);

  /// Ends the group: this rank does not finish its step.
  void abort();

  /// Of a step that is done.
  std::vector<BucketTimeline> timeline() const;

  /// Since begin().
  double seconds(Clock::time_point time) const {
    return std::chrono::duration<double>(time - begin_time_).count();
  }

 private:
  struct Bucket {
    std::shared_ptr<void> memory;
    Buffer gradients;
    bool is_complete = false;
    Clock::time_point ready_time;
    Clock::time_point launched_time;
    std::optional<Clock::time_point> done_time;
    Work work;
  };

  void launch(Bucket& bucket);
  void note_done(Clock::time_point now);

  ProcessGroup group_;
  ReduceOp op_;
  Clock::time_point begin_time_;
  std::mutex mutex_;  // for all below
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;           ///< launched are those before it
  std::vector<Work> other_works_;  ///< in memory that is not ours
  std::exception_ptr launch_error_;
};

}  // namespace ddprun
