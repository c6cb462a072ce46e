// What a WorkQueue does about captures of streams into graphs.
#include "worker_runtime/group/work_queue.hpp"
#include <ddprun/error.hpp>

#include <exception>
#include <utility>

namespace ddprun {

namespace {

// While nothing is under way, but graphs may be: a rank's death is heard of after this at the
// latest, and looking so often takes a thousandth of a core.
constexpr std::chrono::milliseconds kWatchPause{5};
// Who asks after the device tells nobody when it has found nothing; a capture waits for its turn.
constexpr std::chrono::microseconds kTurnPause{100};

}  // namespace

/// 0 if there is nothing that could be captured. What fails is the group's failure: the other ranks
/// call the collective, too.
std::uint64_t WorkQueue::capture_of(const Operation& operation, void* stream) {
  const bool is_on_device = device_of(operation).kind != Device::Kind::cpu;
  // A group that never had a buffer on the device need not make CUDA at home there to find out.
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
  // NCCL has to get all ranks' calls in one order.
  while (!failure_ && (is_running_ || !works_.empty())) {
    if (is_running_) {
      changed_.wait_for(lock, kTurnPause);
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
    // What was captured has a place in the flight recorder, its launches have none.
    log_.end(log_.enter(work->operation, Deadline::Clock::now()));
    finish(*work, nullptr);
    wanted_.notify_one();
  }
  return Work(std::move(work));
}

/// Without the lock, as whoever carries a work out.
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
  is_running_ = false;
  if (failure) fail_all(failure);
  changed_.notify_all();
  if (!refusal.empty()) refuse_capture(work.operation, refusal);
}

/// Until there is something to do. Who waits for a graph's launch waits for the device, which
/// knows of no rank's death: somebody has to look.
void WorkQueue::watch(Lock& lock) {
  if (!is_watching_) return wanted_.wait(lock);
  const bool is_told = wanted_.wait_for(lock, kWatchPause) == std::cv_status::no_timeout;
  if (is_told || is_running_ || !works_.empty()) return;
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
  is_running_ = false;
  if (failure) {
    // After an abort() of this rank the device has now heard of it, too.
    is_watching_ = false;
    fail_all(failure_ ? failure_ : failure);
  }
  changed_.notify_all();
}

}  // namespace ddprun
