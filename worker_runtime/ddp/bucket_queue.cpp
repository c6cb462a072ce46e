#include "worker_runtime/ddp/bucket_queue.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun {

namespace {

/// For works that end because their group was aborted.
void wait_in_any_case(const Work& work) noexcept {
  try {
    work.wait();
  } catch (const std::exception&) {
    // It has ended, which is all that matters here.
  }
}

}  // namespace

BucketQueue::BucketQueue(ProcessGroup group, const BucketPlan& plan, ReduceOp op)
    : group_(std::move(group)), op_(op), buckets_(plan.buckets.size()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    auto& gradients = buckets_[b].gradients;
    gradients = {nullptr, plan.buckets[b].elements, plan.buckets[b].type};
    if (gradients.elements == 0) continue;
    buckets_[b].memory = group_.allocate(gradients.bytes());
    gradients.data = buckets_[b].memory.get();
  }
}

BucketQueue::~BucketQueue() {
  for (auto& bucket : buckets_) other_works_.push_back(std::move(bucket.work));
  const auto is_done = [](const Work& work) { return work.is_done(); };
  if (std::all_of(other_works_.begin(), other_works_.end(), is_done)) return;
  abort();
  for (const auto& work : other_works_) wait_in_any_case(work);
}

void BucketQueue::zero() {
  for (auto& bucket : buckets_) {
    if (bucket.memory) std::memset(bucket.gradients.data, 0, bucket.gradients.bytes());
  }
}

void BucketQueue::broadcast(std::span<const Buffer> others) {
  for (auto& bucket : buckets_) {
    if (bucket.memory) bucket.work = group_.broadcast(bucket.gradients, 0);
  }
  for (const Buffer& buffer : others) {
    if (buffer.elements > 0) other_works_.push_back(group_.broadcast(buffer, 0));
  }
  for (const auto& bucket : buckets_) bucket.work.wait();
  for (const auto& work : other_works_) work.wait();
}

void BucketQueue::begin() {
  const std::lock_guard lock(mutex_);
  for (auto& bucket : buckets_) {
    bucket.is_complete = false;
    bucket.done_time.reset();
    bucket.work = Work();
  }
  other_works_.clear();
  next_ = 0;
  begin_time_ = Clock::now();
}

void BucketQueue::complete(std::size_t index) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  buckets_[index].ready_time = now;
  buckets_[index].is_complete = true;
  note_done(now);
  while (next_ < buckets_.size() && buckets_[next_].is_complete) launch(buckets_[next_++]);
}

void BucketQueue::launch(Bucket& bucket) {
  bucket.launched_time = Clock::now();
  if (group_.size() == 1 || !bucket.memory) {
    bucket.done_time = bucket.launched_time;
    return;
  }
  if (launch_error_) return;
  try {
    bucket.work = group_.all_reduce(bucket.gradients, op_);
  } catch (...) {
    // Here is whichever thread of the backward pass came last, and it may have no use for it.
    launch_error_ = std::current_exception();
  }
}

void BucketQueue::note_done(Clock::time_point now) {
  for (std::size_t b = 0; b < next_; ++b) {
    auto& bucket = buckets_[b];
    if (!bucket.done_time && bucket.work.is_done()) bucket.done_time = now;
  }
}

void BucketQueue::append(Buffer buffer, ReduceOp op) {
  const std::lock_guard lock(mutex_);
  if (launch_error_) std::rethrow_exception(launch_error_);
  if (group_.size() == 1 || buffer.elements == 0) return;
  other_works_.push_back(group_.all_reduce(buffer, op));
}

void BucketQueue::wait(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (launch_error_) std::rethrow_exception(launch_error_);
  note_done(Clock::now());
  for (auto& bucket : buckets_) {
    // Also if it is known to be done: it may have failed.
    bucket.work.wait(deadline);
    if (!bucket.done_time) bucket.done_time = Clock::now();
  }
  for (const auto& work : other_works_) work.wait(deadline);
}

void BucketQueue::abort() {
  group_.abort("its gradient reducer was destroyed within a step");
}

std::vector<BucketTimeline> BucketQueue::timeline() const {
  std::vector<BucketTimeline> timeline;
  for (const auto& bucket : buckets_) {
    timeline.push_back({.index = timeline.size(),
                        .bytes = bucket.gradients.bytes(),
                        .ready_seconds = seconds(bucket.ready_time),
                        .launched_seconds = seconds(bucket.launched_time),
                        .done_seconds = seconds(*bucket.done_time)});
  }
  return timeline;
}

}  // namespace ddprun
