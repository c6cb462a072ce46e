#include "worker_runtime/ddp/bucket_queue.hpp"

#include "worker_runtime/collectives/divide.hpp"

#include <algorithm>
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

BucketQueue::BucketQueue(ProcessGroup group, Exchange exchange)
    : group_(std::move(group)), exchange_(std::move(exchange)) {}

BucketQueue::~BucketQueue() {
  for (auto& bucket : buckets_) other_works_.push_back(std::move(bucket.work));
  const auto is_done = [](const Work& work) { return work.is_done(); };
  if (std::all_of(other_works_.begin(), other_works_.end(), is_done)) return;
  abort("its gradient reducer was destroyed within a step");
  for (const auto& work : other_works_) wait_in_any_case(work);
}

void BucketQueue::lay_out(std::span<const BucketView> views) {
  const std::lock_guard lock(mutex_);
  buckets_.clear();
  for (const auto& view : views) buckets_.push_back({.view = view});
}

void BucketQueue::begin(int ranks) {
  const std::lock_guard lock(mutex_);
  for (auto& bucket : buckets_) {
    bucket.is_complete = false;
    bucket.done_time.reset();
    bucket.work = Work();
  }
  other_works_.clear();
  next_ = 0;
  ranks_ = ranks;
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
  if (group_.size() == 1 || bucket.view.gradients.elements == 0) {
    bucket.done_time = bucket.launched_time;
    return;
  }
  if (launch_error_) return;
  try {
    bucket.work = start(bucket.view);
  } catch (...) {
    // Here is whichever thread of the backward pass came last, and it may have no use for it.
    launch_error_ = std::current_exception();
    if (exchange_.hook) abort("its bucket hook " + exchange_.hook->name + " failed");
  }
}

Work BucketQueue::start(const BucketView& view) {
  const bool is_average = view.op == ReduceOp::average;
  const bool is_over_all = ranks_ == group_.size();
  if (exchange_.hook) {
    BucketView shown = view;
    if (!is_over_all) shown.op = ReduceOp::sum;
    Work work;
    exchange_.hook->start(shown, work);
    return work;
  }
  if (is_average && exchange_.pre_divide) collectives::divide(view.gradients, ranks_);
  const bool divides_later = exchange_.pre_divide || !is_over_all;
  return group_.all_reduce(view.gradients, divides_later ? ReduceOp::sum : view.op);
}

/// What remains to be done when the bucket's work has ended.
void BucketQueue::end(const Bucket& bucket, Deadline deadline) {
  if (group_.size() == 1 || bucket.view.gradients.elements == 0) return;
  const bool is_over_all = ranks_ == group_.size();
  if (exchange_.hook && exchange_.hook->complete) {
    BucketView shown = bucket.view;
    if (!is_over_all) shown.op = ReduceOp::sum;
    try {
      exchange_.hook->complete(shown, deadline);
    } catch (...) {
      // The others must not wait for what this rank will never call.
      abort("its bucket hook " + exchange_.hook->name + " failed");
      throw;
    }
  }
  const bool was_divided = exchange_.pre_divide && !exchange_.hook;
  if (bucket.view.op == ReduceOp::average && !is_over_all && !was_divided) {
    collectives::divide(bucket.view.gradients, ranks_);
  }
}

void BucketQueue::note_done(Clock::time_point now) {
  for (std::size_t b = 0; b < next_; ++b) {
    auto& bucket = buckets_[b];
    if (!bucket.done_time && bucket.work.is_done()) bucket.done_time = now;
  }
}

void BucketQueue::add(Work work) {
  const std::lock_guard lock(mutex_);
  other_works_.push_back(std::move(work));
}

void BucketQueue::wait(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (launch_error_) std::rethrow_exception(launch_error_);
  note_done(Clock::now());
  for (auto& bucket : buckets_) {
    // Also if it is known to be done: it may have failed.
    bucket.work.wait(deadline);
    end(bucket, deadline);
    if (!bucket.done_time || exchange_.hook) bucket.done_time = Clock::now();
  }
  for (const auto& work : other_works_) work.wait(deadline);
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
                        .done_seconds = seconds(*bucket.done_time)});
  }
  return timeline;
}

}  // namespace ddprun
