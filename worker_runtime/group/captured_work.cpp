// Captures of a WorkQueue's calls into CUDA graphs.
#include "worker_runtime/group/work_queue.hpp"
#include <ddprun/error.hpp>

#include <exception>
#include <utility>

namespace ddprun {

namespace {

// Interval of checks while graphs may be running, within which a rank's death is detected. The
// checks use 0.1 % of a core.
constexpr std::chrono::milliseconds kWatchInterval{5};
// A thread that polls the device without result does not notify others, so a capture polls.
constexpr std::chrono::microseconds kTurnInterval{100};

}  // namespace

/// Returns 0 if the call is not captured. A failure fails the group, since the other ranks call the
/// collective as well.
std::uint64_t WorkQueue::capture_of(const Operation& operation, void* stream) {
  const bool is_on_device = device_of(operation).kind != Device::Kind::cpu;
  // A group without device buffers does not initialise CUDA for this.
  if (!is_on_device && (!uses_device_ || stream == nullptr)) return 0;
  uses_device_ = true;
  try {
    return device_->capture_of(stream);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    if (known != nullptr && known->code() == Errc::usage) refuse_capture(operation, error.what());
    backend_->abort(error.what());
    const Lock lock(mutex_);
    fail_all(std::current_exception());
  }
  return 0;
}

void WorkQueue::refuse_capture(const Operation& operation, const std::string& reason) const {
  throw Error(Errc::usage, "process group \"" + options_.name + "\": " +
                               describe(operation, ranks_) + " cannot be captured: " + reason);
}

Work WorkQueue::capture(const Operation& operation, void* stream, std::uint64_t capture) {
  if (device_of(operation).kind == Device::Kind::cpu) {
    refuse_capture(operation,
                   "it is not of buffers on the device, and the group's stream is being captured "
                   "(call it before the capture or after it)");
  }
  if (is_message(operation.collective))
    refuse_capture(operation, "messages pass through the memory of the host");
  Lock lock(mutex_);
  // NCCL needs the same order of calls on all ranks.
  while (!failure_ && (is_running_ || !works_.empty())) {
    if (is_running_) {
      changed_.wait_for(lock, kTurnInterval);
    } else {
      advance(lock);
    }
  }
  auto work = std::make_shared<Work::State>();
  work->operation = operation;
  work->capture = capture;
  if (!failure_) capture_now(*work, stream, lock);
  const auto numbered = number(operation);
  work->operation = numbered->operation;
  work->queue = numbered->queue;
  if (failure_) {
    work->capture = 0;
    finish(*work, failure_);
  } else {
    is_watching_ = true;
    // The flight recorder has captured calls, not their launches.
    log_.end(log_.enter(work->operation, Deadline::Clock::now()));
    finish(*work, nullptr);
    wanted_.notify_one();
  }
  return Work(std::move(work));
}

/// Releases the lock, like run_next().
void WorkQueue::capture_now(Work::State& work, void* stream, Lock& lock) {
  is_running_ = true;
  lock.unlock();
  std::exception_ptr failure;
  std::string refusal;
  try {
    const auto deadline = Deadline::after(options_.collective_timeout);
    work.captured = device_->capture(work.operation, stream, deadline);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    if (known != nullptr && known->code() == Errc::usage) {
      refusal = error.what();
    } else {
      failure = std::current_exception();
      backend_->abort(error.what());
    }
  }
  lock.lock();
  if (failure) fail_all(failure);
  end_running();
  if (!refusal.empty()) refuse_capture(work.operation, refusal);
}

/// Waits for a notification. If graphs may be running, it checks the group periodically, since a
/// program that waits for a graph waits for the device, which does not detect a rank's death.
void WorkQueue::watch(Lock& lock) {
  if (!is_watching_) return wanted_.wait(lock);
  const bool is_notified = wanted_.wait_for(lock, kWatchInterval) == std::cv_status::no_timeout;
  if (is_notified || is_running_ || !works_.empty()) return;
  is_running_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    device_->watch();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    backend_->abort(error.what());
  }
  lock.lock();
  if (failure) {
    // After an abort() of this rank, watch() has aborted the device's work as well.
    is_watching_ = false;
    fail_all(failure_ ? failure_ : failure);
  }
  end_running();
}

}  // namespace ddprun
