#include "worker_runtime/group/work_queue.hpp"

#include <ddprun/error.hpp>

#include <utility>

namespace ddprun {

namespace {

// A lone new work is left to its caller for this long: longer than from a call to the wait for it
// in a program that waits at once, much shorter than a collective worth overlapping with
// computation.
constexpr auto kCallerGrace = std::chrono::microseconds(200);

}  // namespace

WorkQueue::WorkQueue(std::unique_ptr<Backend> backend, std::size_t ranks,
                     const GroupOptions& options, CallLog log)
    : backend_(std::move(backend)), ranks_(ranks), options_(options), log_(std::move(log)) {}

WorkQueue::~WorkQueue() = default;

void WorkQueue::start(Deadline deadline) {
  thread_ = std::thread([this, deadline] { communicate(deadline); });
}

void WorkQueue::wait_entered() {
  entered_.get_future().get();
}

void WorkQueue::stop() {
  {
    const Lock lock(mutex_);
    is_stopping_ = true;
  }
  wanted_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Work WorkQueue::push(const Operation& operation) {
  Lock lock(mutex_);
  if (works_.size() == kQueuedWorksMax) await_room(lock);
  auto work = std::make_shared<Work::State>();
  work->operation = operation;
  work->operation.sequence = calls_++;
  work->operation.number = is_message(operation.collective) ? collectives_ : collectives_++;
  work->queue = shared_from_this();
  if (failure_) {
    finish(*work, failure_);
    return Work(std::move(work));
  }
  work->queued = Deadline::Clock::now();
  work->is_first = works_.empty();
  works_.push_back(work);
  if (!is_attentive_ || works_.size() > 1) wanted_.notify_one();
  return Work(std::move(work));
}

void WorkQueue::await_room(Lock& lock) {
  const auto deadline = Deadline::after(options_.collective_timeout);
  while (works_.size() == kQueuedWorksMax && !failure_) {
    const bool is_late = changed_.wait_until(lock, deadline.time()) == std::cv_status::timeout;
    if (is_late && works_.size() == kQueuedWorksMax && !failure_) {
      throw Error(Errc::timeout, "process group \"" + options_.name +
                                     "\": " + std::to_string(kQueuedWorksMax) +
                                     " works are queued and none ended " + deadline.describe());
    }
  }
}

void WorkQueue::wait(const Work::State& work, Deadline deadline) {
  Lock lock(mutex_);
  while (!work.is_done) {
    // Whoever has less time left than a collective may take must not get into one.
    const bool may_run = deadline.is_never() || deadline.remaining() > options_.collective_timeout;
    if (may_run && !is_running_) {
      run_next(lock);
    } else if (deadline.is_never()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline.time()) == std::cv_status::timeout &&
               !work.is_done) {
      give_up(work, deadline);
    }
  }
}

/// Says who holds the work up, or the one that is under way before it.
void WorkQueue::give_up(const Work::State& work, Deadline deadline) const {
  std::string text =
      describe_in(options_.name, work.operation, ranks_) + " had not ended " + deadline.describe();
  const Operation& first = works_.front()->operation;
  if (works_.front().get() != &work)
    text += "; before it comes " + describe_in(options_.name, first, ranks_);
  if (is_running_ && !is_message(first.collective)) {
    const std::string reason = backend_->hold_up();
    if (!reason.empty()) text += ": " + reason;
  }
  throw Error(Errc::timeout, text);
}

void WorkQueue::keep_end_time(Work::State& work) {
  const Lock lock(mutex_);
  if (work.is_timed) return;
  work.is_timed = true;
  // A moment late: it has ended meanwhile.
  if (work.is_done) work.ended = Deadline::Clock::now();
}

std::optional<Deadline::Clock::time_point> WorkQueue::end_time(const Work::State& work) {
  const Lock lock(mutex_);
  if (!work.is_done || !work.is_timed) return std::nullopt;
  return work.ended;
}

void WorkQueue::communicate(Deadline join_deadline) {
  try {
    backend_->enter(join_deadline);
  } catch (...) {
    entered_.set_exception(std::current_exception());
    backend_->leave();
    return;
  }
  log_.open();
  entered_.set_value();
  Lock lock(mutex_);
  while (!is_stopping_ || !works_.empty()) {
    if (works_.empty()) {
      is_attentive_ = false;
      wanted_.wait(lock);
    } else if (is_running_) {
      changed_.wait(lock);
    } else if (const auto until = works_.front()->queued + kCallerGrace;
               works_.size() == 1 && !is_stopping_ && Deadline::Clock::now() < until) {
      is_attentive_ = true;
      wanted_.wait_until(lock, until);
    } else {
      run_next(lock);
    }
  }
  lock.unlock();
  log_.leave();
  backend_->leave();
}

void WorkQueue::run_next(Lock& lock) {
  const auto work = works_.front();
  is_running_ = true;
  lock.unlock();
  const auto started = options_.on_collective ? Deadline::Clock::now() : work->queued;
  std::exception_ptr failure;
  try {
    // A work that was not kept waiting began when it was queued, as good as: one look at the clock
    // is much of what a small collective takes.
    const auto start = work->is_first ? work->queued : Deadline::Clock::now();
    log_.enter(work->operation, start);
    backend_->run(work->operation, Deadline::from(start, options_.collective_timeout));
    log_.end();
  } catch (const std::exception& error) {
    failure = log_.fail(work->operation, std::current_exception());
    backend_->abort(error.what());
  }
  if (!failure && options_.on_collective) report(*work, started);
  lock.lock();
  is_running_ = false;
  works_.pop_front();
  finish(*work, failure_ && failure ? failure_ : failure);
  if (failure) fail_all(failure_ ? failure_ : failure);
  changed_.notify_all();
}

void WorkQueue::report(const Work::State& work, Deadline::Clock::time_point started) const {
  options_.on_collective({.name = to_string(work.operation.collective),
                          .bytes = work.operation.input.bytes(),
                          .sequence = work.operation.sequence,
                          .queued = work.queued,
                          .started = started,
                          .ended = Deadline::Clock::now()});
}

void WorkQueue::finish(Work::State& work, std::exception_ptr failure) {
  work.failure = std::move(failure);
  if (work.is_timed) work.ended = Deadline::Clock::now();
  work.is_done.store(true, std::memory_order_release);
}

/// All but a work that is running, whose own failure is on its way.
void WorkQueue::fail_all(const std::exception_ptr& failure) {
  if (!failure_) failure_ = failure;
  const std::size_t first = is_running_ ? 1 : 0;
  while (works_.size() > first) {
    finish(*works_.back(), failure_);
    works_.pop_back();
  }
}

void WorkQueue::abort(const std::string& reason, const std::string& who) {
  const std::string group = "process group \"" + options_.name + "\" was aborted";
  {
    const Lock lock(mutex_);
    fail_all(std::make_exception_ptr(Error(Errc::closed, group + ": " + reason)));
  }
  changed_.notify_all();
  wanted_.notify_one();
  backend_->abort(group + " by " + who + ": " + reason);
}

}  // namespace ddprun
