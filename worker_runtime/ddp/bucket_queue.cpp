#include "worker_runtime/ddp/bucket_queue.hpp"

#include "worker_runtime/collectives/divide.hpp"
#include "worker_runtime/ddp/wait_ignoring_errors.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

/// Sets the group's stream during its scope if tensors are on a device.
class OnStream {
 public:
  OnStream(ProcessGroup& group, const TensorWork& tensors, void* stream)
      : group_(group), before_(group.stream()), counts_(tensors.is_on_device()) {
    if (counts_) group_.set_stream(stream);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  ~OnStream() {
    if (counts_) group_.set_stream(before_);
  }

 private:
  ProcessGroup& group_;
  void* before_;
  bool counts_;
};

/// Adds the bucket to `failure`, an error about different collectives on the ranks.
Error with_bucket(const BucketView& bucket, const Error& failure) {
  return Error(failure.code(),
               std::string(failure.what()) + "; this failed bucket " +
                   std::to_string(bucket.index) +
                   " of this rank's gradients (ranks with different numbers of batches need "
                   "uneven_inputs)");
}

}  // namespace

BucketQueue::BucketQueue(ProcessGroup group, const TensorWork& tensors, Exchange exchange)
    : group_(std::move(group)), tensors_(tensors), exchange_(std::move(exchange)) {}

BucketQueue::~BucketQueue() {
  for (auto& bucket : buckets_) other_works_.push_back(std::move(bucket.work));
  const auto is_done = [](const Work& work) { return work.is_done(); };
  if (std::all_of(other_works_.begin(), other_works_.end(), is_done)) return;
  if (!is_held_) abort("its gradient reducer was destroyed within a step");
  for (const auto& work : other_works_) wait_ignoring_errors(work);
}

void BucketQueue::lay_out(std::span<const BucketView> views) {
  const std::lock_guard lock(mutex_);
  for (const auto& bucket : buckets_) bucket.work.wait();
  buckets_.clear();
  for (const auto& view : views) buckets_.push_back({.view = view});
}

void BucketQueue::begin(int ranks) {
  const std::lock_guard lock(mutex_);
  for (auto& bucket : buckets_) {
    bucket.is_complete = false;
    bucket.work = Work();
  }
  other_works_.clear();
  next_ = 0;
  is_held_ = false;
  ranks_ = ranks;
  begin_time_ = Clock::now();
}

void BucketQueue::complete(std::size_t index, void* stream) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  buckets_[index].ready_time = now;
  buckets_[index].is_complete = true;
  buckets_[index].stream = stream;
  while (next_ < buckets_.size() && buckets_[next_].is_complete) launch(buckets_[next_++]);
}

void BucketQueue::launch(Bucket& bucket) {
  bucket.launched_time = Clock::now();
  bucket.done_time = bucket.launched_time;
  if (group_.size() == 1 || bucket.view.gradients.elements == 0) return;
  if (launch_error_) return;
  try {
    const OnStream ordered(group_, tensors_, bucket.stream);
    bucket.work = start(bucket.view);
    bucket.work.record_end_time();
  } catch (...) {
    // The calling thread belongs to the backward pass and may not handle exceptions.
    launch_error_ = std::current_exception();
    abort(exchange_.hook ? "its bucket hook " + exchange_.hook->name + " failed"
                         : "it could not start the all-reduce of a bucket");
  }
}

Work BucketQueue::start(const BucketView& view) {
  if (exchange_.hook) {
    Work work;
    exchange_.hook->start(view, work);
    return work;
  }
  if (!exchange_.pre_divide) return group_.all_reduce(view.gradients, view.op);
  if (view.op == ReduceOp::average) divide(view.gradients);
  return group_.all_reduce(view.gradients, ReduceOp::sum);
}

void BucketQueue::divide(const Buffer& gradients) const {
  if (!tensors_.is_on_device()) return collectives::divide(gradients, ranks_);
  tensors_.scale(gradients, 1.0 / ranks_, group_.stream());
}

/// Completes a bucket whose work has ended.
void BucketQueue::end(Bucket& bucket, Deadline deadline) {
  if (group_.size() == 1 || bucket.view.gradients.elements == 0) return;
  if (exchange_.hook && exchange_.hook->complete) {
    try {
      exchange_.hook->complete(bucket.view, deadline);
    } catch (...) {
      // This rank will not call the remaining collectives of the hook.
      abort("its bucket hook " + exchange_.hook->name + " failed");
      throw;
    }
    bucket.done_time = Clock::now();
  }
  const bool was_divided = exchange_.pre_divide && !exchange_.hook;
  const bool is_over_all = ranks_ == group_.size();
  if (bucket.view.op == ReduceOp::average && !is_over_all && !was_divided) {
    // Until here the gradients are averages over all ranks: a sum may exceed a half type.
    tensors_.scale(bucket.view.gradients, static_cast<double>(group_.size()) / ranks_,
                   group_.stream());
  }
}

void BucketQueue::add(Work work) {
  const std::lock_guard lock(mutex_);
  other_works_.push_back(std::move(work));
}

template <typename Await>
void BucketQueue::end_all(void* stream, Deadline deadline, const Await& await) {
  const std::lock_guard lock(mutex_);
  const OnStream ordered(group_, tensors_, stream);
  for (auto& bucket : buckets_) {
    try {
      await(bucket.work);
    } catch (const Error& failure) {
      if (failure.code() == Errc::usage) throw with_bucket(bucket.view, failure);
      if (!launch_error_) throw;
    }
    // A failed launch may be the consequence of an earlier bucket's failure.
    if (launch_error_) continue;
    // Without collectives, gradients are ready after the backward pass.
    if (group_.size() == 1) tensors_.order(bucket.stream, stream);
    const auto now = bucket.work.is_done() ? bucket.launched_time : Clock::now();
    bucket.done_time = bucket.work.end_time().value_or(now);
    end(bucket, deadline);
  }
  if (launch_error_) std::rethrow_exception(launch_error_);
  for (const auto& work : other_works_) work.wait(deadline);
}

void BucketQueue::wait(void* stream, Deadline deadline) {
  end_all(stream, deadline, [deadline](const Work& work) { work.wait(deadline); });
  await_hook(deadline);
}

void BucketQueue::hold(void* stream, Deadline deadline) {
  end_all(stream, deadline, [stream](const Work& work) { work.hold(stream); });
  is_held_ = true;
}

void BucketQueue::await(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& bucket : buckets_) bucket.work.wait(deadline);
  }
  await_hook(deadline);
}

void BucketQueue::await_hook(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (exchange_.hook && exchange_.hook->await) exchange_.hook->await(deadline);
}

void BucketQueue::abort(const std::string& reason) {
  group_.abort(reason);
}

std::vector<BucketTimeline> BucketQueue::timeline() const {
  std::vector<BucketTimeline> timeline;
  for (const auto& bucket : buckets_) {
    timeline.push_back({.index = timeline.size(),
                        .bytes = bucket.view.gradients.bytes(),
                        .ready_seconds = seconds(bucket.ready_time),
                        .launched_seconds = seconds(bucket.launched_time),
                        .done_seconds = seconds(bucket.done_time)});
  }
  return timeline;
}

}  // namespace ddprun
