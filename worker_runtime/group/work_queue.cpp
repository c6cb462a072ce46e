#include "worker_runtime/group/work_queue.hpp"

#include "worker_runtime/backends/new_thread.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

// Time for which a single new work is left to its caller, and interval of the communication
// thread's checks while there are calls: longer than from a call to an immediate wait(), and much
// shorter than a collective that is worth overlapping with computation.
constexpr auto kCallerGrace = std::chrono::microseconds(200);

// Intervals between polls of the device, which double from the shortest after a launch: short
// collectives take tens of microseconds, and a rank's death is detected within the longest.
constexpr std::chrono::microseconds kShortestPause{20};
constexpr std::chrono::microseconds kLongestPause{1000};
// Number of polls without a pause by a thread that waits for a work.
constexpr int kImmediatePolls = 200;

bool is_on_device(const Operation& operation) {
  return device_of(operation).kind != Device::Kind::cpu;
}

/// Returns true for operations that are launched on the device; messages pass through the host.
bool is_launched_on_device(const Operation& operation) {
  return is_on_device(operation) && !is_message(operation.collective);
}

/// The calling thread's last work on the device, of any group.
thread_local std::weak_ptr<Work::State> last_on_device;

/// Records the calling thread while it waits for its own work, unless another thread is recorded.
class OwnWait {
 public:
  OwnWait(std::thread::id& waiter, std::thread::id caller) : waiter_(waiter) {
    is_noted_ = caller == std::this_thread::get_id() && waiter == std::thread::id();
    if (is_noted_) waiter_ = caller;
  }
  OwnWait(const OwnWait&) = delete;
  OwnWait& operator=(const OwnWait&) = delete;
  ~OwnWait() {
    if (is_noted_) waiter_ = std::thread::id();
  }

 private:
  std::thread::id& waiter_;
  bool is_noted_;
};

}  // namespace

/// Records the time of a wait, however it ends. Created and destroyed with the mutex locked.
class WorkQueue::RecordedWait {
 public:
  explicit RecordedWait(WorkQueue& queue) : queue_(queue) {
    // The communication thread ends the log once the queue is stopping.
    if (!queue_.is_stopping_) begin_ = queue_.log_.begin_wait();
  }
  RecordedWait(const RecordedWait&) = delete;
  RecordedWait& operator=(const RecordedWait&) = delete;
  ~RecordedWait() {
    if (begin_ && !queue_.is_stopping_) queue_.log_.add_wait(*begin_);
  }

 private:
  WorkQueue& queue_;
  std::optional<std::chrono::nanoseconds> begin_;
};

WorkQueue::WorkQueue(std::unique_ptr<Backend> backend, std::size_t ranks,
                     const GroupOptions& options, CallLog log)
    : backend_(std::move(backend)),
      device_(backend_->device_queue()),
      ranks_(ranks),
      options_(options),
      log_(std::move(log)) {}

WorkQueue::~WorkQueue() = default;

void WorkQueue::start(Deadline deadline) {
  thread_ = new_thread("process group \"" + options_.name + "\"",
                       [this, deadline] { communicate(deadline); });
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

Work WorkQueue::push(const Operation& operation, void* stream) {
  if (const auto number = capture_of(operation, stream)) return capture(operation, stream, number);
  Lock lock(mutex_);
  const bool is_waiting = own_waiter_ != std::thread::id();
  if (is_waiting && own_waiter_ != std::this_thread::get_id() && !options_.has_calling_threads) {
    lock.unlock();
    refuse_second_thread(operation);
  }
  if (works_.size() == kQueuedWorksMax) wait_for_space(lock);
  auto work = number(operation);
  if (!failure_ && is_on_device(operation)) mark(*work, stream, lock);
  if (failure_) {
    finish(*work, failure_);
    return Work(std::move(work));
  }
  if (is_launched_on_device(operation)) {
    auto before = std::exchange(last_on_device, work).lock();
    const bool is_elsewhere = before && before->queue.get() != this;
    if (is_elsewhere && before->queue->is_of_this_process()) work->before = std::move(before);
  }
  work->queued = Deadline::Clock::now();
  work->is_first = works_.empty();
  works_.push_back(work);
  if (!polls_soon_ || works_.size() > 1 || is_on_device(operation)) wanted_.notify_one();
  return Work(std::move(work));
}

std::shared_ptr<Work::State> WorkQueue::number(const Operation& operation) {
  auto work = std::make_shared<Work::State>();
  work->operation = operation;
  work->caller = std::this_thread::get_id();
  work->operation.sequence = calls_++;
  work->operation.number = is_message(operation.collective) ? collectives_ : collectives_++;
  work->queue = shared_from_this();
  return work;
}

/// Releases the lock, since CUDA may block. A failure fails the group, since the other ranks call
/// the collective as well.
void WorkQueue::mark(Work::State& work, void* stream, Lock& lock) {
  lock.unlock();
  std::exception_ptr failure;
  try {
    work.operation.mark = device_->mark(stream);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    backend_->abort(error.what());
  }
  lock.lock();
  if (failure) fail_all(failure);
}

/// Waits until `before`, of another group, has been launched or has failed.
void WorkQueue::await_turn(const Work::State& before, Deadline deadline) {
  while (!before.queue->wait_launched(before)) {
    const Lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (!deadline.passed()) continue;
    throw Error(Errc::timeout,
                describe_in(before.queue->options_.name, before.operation, before.queue->ranks_) +
                    ", which the thread has called before, was not launched " +
                    deadline.describe());
  }
}

/// Returns false if `work`, of this queue, is launched neither now nor soon. Any thread.
bool WorkQueue::wait_launched(const Work::State& work) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, kLongestPause,
                           [&work] { return work.is_done || work.launch != 0; });
}

void WorkQueue::wait_for_space(Lock& lock) {
  if (works_.size() < kQueuedWorksMax) return;
  const RecordedWait recorded(*this);
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
  require_own_process();
  Lock lock(mutex_);
  const OwnWait own_wait(own_waiter_, work.caller);
  const RecordedWait recorded(*this);
  for (int polls = 0; !work.is_done;) {
    // A thread with less time than collective_timeout must not run a collective.
    const bool may_run = deadline.is_never() || deadline.remaining() > options_.collective_timeout;
    if (may_run && !is_running_ && work.launch == 0) {
      advance(lock);
    } else if (may_run && !is_running_) {
      if (!poll_device(lock) && ++polls > kImmediatePolls) pause(changed_, lock);
    } else if (deadline.is_never()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline.time()) == std::cv_status::timeout &&
               !work.is_done) {
      throw_timeout(work, deadline);
    }
  }
}

void WorkQueue::hold(const Work::State& work, void* stream) {
  require_own_process();
  if (work.capture != 0) return device_->hold_captured(stream, work.capture, work.captured);
  Lock lock(mutex_);
  const RecordedWait recorded(*this);
  while (!work.is_done && work.launch == 0) {
    if (is_running_) {
      changed_.wait(lock);
    } else {
      advance(lock);
    }
  }
  if (!work.is_done) device_->hold(stream, work.launch);
}

/// Throws Errc::timeout with the ranks that delay the work, or the work before it.
void WorkQueue::throw_timeout(const Work::State& work, Deadline deadline) const {
  std::string text =
      describe_in(options_.name, work.operation, ranks_) + " had not ended " + deadline.describe();
  const Operation& first = (launched_.empty() ? works_ : launched_).front()->operation;
  if (first.sequence != work.operation.sequence)
    text += "; before it comes " + describe_in(options_.name, first, ranks_);
  if ((is_running_ || !launched_.empty()) && !is_message(first.collective)) {
    const std::string reason = backend_->stall_reason();
    if (!reason.empty()) text += ": " + reason;
  }
  throw Error(Errc::timeout, text);
}

void WorkQueue::record_end_time(Work::State& work) {
  require_own_process();
  const Lock lock(mutex_);
  if (work.is_timed || work.capture != 0) return;
  work.is_timed = true;
  // The work has just ended.
  if (work.is_done) work.ended = Deadline::Clock::now();
}

std::optional<Deadline::Clock::time_point> WorkQueue::end_time(const Work::State& work) {
  require_own_process();
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
  std::uint64_t seen_calls = 0;
  while (!is_stopping_ || !works_.empty() || !launched_.empty()) {
    const auto step = next_step();
    // Callers probably run their calls. Waking this thread for each would take longer than a small
    // collective.
    polls_soon_ =
        (step == Step::await_calls && seen_calls != calls_) || step == Step::leave_to_caller;
    switch (step) {
      case Step::await_calls:
        seen_calls = calls_;
        if (polls_soon_) {
          wanted_.wait_for(lock, kCallerGrace);
        } else {
          watch(lock);
        }
        break;
      case Step::await_other_thread:
        // A thread that polls the device may stop without a notification.
        changed_.wait_for(lock, kLongestPause);
        break;
      case Step::poll:
        if (!poll_device(lock)) pause(wanted_, lock);
        break;
      case Step::leave_to_caller:
        wanted_.wait_until(lock, works_.front()->queued + kCallerGrace);
        break;
      case Step::run:
        advance(lock);
        break;
    }
  }
  const bool has_failed = failure_ != nullptr;
  lock.unlock();
  log_.leave(has_failed);
  backend_->leave();
}

WorkQueue::Step WorkQueue::next_step() const {
  if (launched_.empty() && (works_.empty() || is_running_)) return Step::await_calls;
  if (is_running_) return Step::await_other_thread;
  if (works_.empty()) return Step::poll;
  return is_left_to_caller(*works_.front()) ? Step::leave_to_caller : Step::run;
}

/// Returns true for a single host work whose caller may be about to wait for it.
bool WorkQueue::is_left_to_caller(const Work::State& work) const {
  return works_.size() == 1 && !is_stopping_ && !is_on_device(work.operation) &&
         Deadline::Clock::now() < work.queued + kCallerGrace;
}

/// Runs the next work, or polls the device if it has kLaunchedWorksMax.
void WorkQueue::advance(Lock& lock) {
  if (launched_.size() < kLaunchedWorksMax) return run_next(lock);
  if (!poll_device(lock)) pause(changed_, lock);
}

void WorkQueue::run_next(Lock& lock) {
  const auto work = works_.front();
  is_running_ = work->has_begun = true;
  lock.unlock();
  work->started = options_.on_collective ? Deadline::Clock::now() : work->queued;
  bool is_launched = false;
  std::exception_ptr failure;
  try {
    is_launched = start_operation(*work);
  } catch (const std::exception& error) {
    failure = log_.fail(work->operation, work->flight, std::current_exception());
    backend_->abort(error.what());
  }
  if (!failure && !is_launched) report(*work);
  lock.lock();
  works_.pop_front();
  if (is_launched) {
    work->launch = ++launches_;
    launched_.push_back(work);
    pause_ = kShortestPause;
  } else {
    finish(*work, failure_ && failure ? failure_ : failure);
  }
  if (failure) fail_all(failure_ ? failure_ : failure);
  end_running();
}

/// Leaves what remains to the threads that wait for a work, and to the communication thread.
void WorkQueue::end_running() {
  is_running_ = false;
  changed_.notify_all();
  if (is_stopping_ || !works_.empty() || !launched_.empty()) wanted_.notify_one();
}

/// Runs a host work, or launches a device work. Returns true if it was launched.
bool WorkQueue::start_operation(Work::State& work) {
  // A work without predecessors starts when it is queued. This saves reading the clock, which is a
  // considerable part of a small collective.
  const auto start = work.is_first ? work.queued : Deadline::Clock::now();
  const auto deadline = Deadline::from(start, options_.collective_timeout);
  work.flight = log_.enter(work.operation, start);
  const bool is_launched = is_launched_on_device(work.operation);
  if (is_launched) {
    if (const auto before = std::exchange(work.before, nullptr)) await_turn(*before, deadline);
    device_->launch(work.operation, deadline);
  } else {
    backend_->run(work.operation, deadline);
    log_.end(work.flight);
  }
  return is_launched;
}

/// Completes works that have ended on the device. Returns false if no work has ended.
bool WorkQueue::poll_device(Lock& lock) {
  is_running_ = true;
  lock.unlock();
  std::uint64_t ended = 0;
  std::exception_ptr failure;
  const Work::State& first = *launched_.front();
  try {
    ended = device_->ended();
    for (const auto& work : launched_) {
      if (work->launch <= ended) report(*work);
    }
  } catch (const std::exception& error) {
    failure = log_.fail(first.operation, first.flight, std::current_exception());
    backend_->abort(error.what());
  }
  const bool has_progress = failure || first.launch <= ended;
  if (!has_progress) std::this_thread::yield();
  lock.lock();
  is_running_ = false;
  if (failure) fail_all(failure);
  while (!launched_.empty() && (failure || launched_.front()->launch <= ended)) {
    if (!failure) log_.end(launched_.front()->flight);
    finish(*launched_.front(), failure ? failure_ : nullptr);
    launched_.pop_front();
  }
  if (has_progress) pause_ = kShortestPause;
  // Works may have been queued meanwhile.
  if (has_progress || !works_.empty()) changed_.notify_all();
  return has_progress;
}

/// Waits until the next poll of the device, or until `other` is notified.
void WorkQueue::pause(std::condition_variable& other, Lock& lock) {
  other.wait_for(lock, pause_);
  pause_ = std::min(2 * pause_, kLongestPause);
}

void WorkQueue::report(const Work::State& work) const {
  if (!options_.on_collective) return;
  options_.on_collective({.name = to_string(work.operation.collective),
                          .bytes = work.operation.input.bytes(),
                          .sequence = work.operation.sequence,
                          .queued = work.queued,
                          .started = work.started,
                          .ended = Deadline::Clock::now()});
}

void WorkQueue::finish(Work::State& work, std::exception_ptr failure) {
  work.failure = std::move(failure);
  if (work.is_timed) work.ended = Deadline::Clock::now();
  work.is_done.store(true, std::memory_order_release);
}

/// Fails all works that have not started; started ones fail on their own.
void WorkQueue::fail_all(const std::exception_ptr& failure) {
  if (!failure_) failure_ = failure;
  // The communication thread ends the log once the queue is stopping.
  if (!is_stopping_) log_.note_failure();
  while (!works_.empty() && !works_.back()->has_begun) {
    finish(*works_.back(), failure_);
    works_.pop_back();
  }
  changed_.notify_all();
  wanted_.notify_one();
}

void WorkQueue::abort(const std::string& reason, const std::string& rank_name) {
  if (!process_.is_this()) return;
  const std::string group = "process group \"" + options_.name + "\" was aborted";
  {
    const Lock lock(mutex_);
    fail_all(std::make_exception_ptr(Error(Errc::closed, group + ": " + reason)));
  }
  backend_->abort(group + " by " + rank_name + ": " + reason);
}

std::shared_ptr<void> WorkQueue::allocate(std::size_t bytes, const Device* device) {
  require_own_process();
  auto piece = device == nullptr ? backend_->allocate(bytes) : device_->allocate(bytes);
  void* const memory = piece.get();
  // A forked child must not free its parent's memory, which needs locks or the device.
  return {make_for_this_process<std::shared_ptr<void>>(std::move(piece)), memory};
}

void WorkQueue::require_own_process() const {
  if (process_.is_this()) return;
  process_.require("process group \"" + options_.name + "\": it",
                   "a forked child must create its own group");
}

void WorkQueue::refuse_second_thread(const Operation& operation) {
  const std::string text = "process group \"" + options_.name +
                           "\": " + describe(operation, ranks_) +
                           " was called while another thread was calling a collective or waiting "
                           "for its own: all calls of a group must come from one thread at a time "
                           "(create a group for each thread with new_group)";
  const auto failure = std::make_exception_ptr(Error(Errc::usage, text));
  {
    const Lock lock(mutex_);
    fail_all(failure);
  }
  backend_->abort(text);
  std::rethrow_exception(failure);
}

}  // namespace ddprun
