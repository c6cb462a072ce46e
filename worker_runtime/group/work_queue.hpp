// The works of one group, run in call order by the group's communication thread or by a thread that
// waits for a work. The latter avoids two thread switches, which take much longer than a small
// collective; so the communication thread leaves a single new work to its caller for kCallerGrace.
//
// Works on device buffers are launched on the device in call order and complete in that order. The
// communication thread, or a waiting thread, polls the device. Calls of one thread on several
// groups are launched in the order of the calls, too: if ranks launched kernels of different
// communicators in different orders, each could occupy a device while it waits for the other.
//
// A call on a captured stream is run by the calling thread, after all earlier works have been
// launched, and becomes part of a CUDA graph. The graph's launches are not visible here, so the
// communication thread checks the group periodically from then on.
#pragma once

#include "rendezvous/base/own_process.hpp"
#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/device_queue.hpp"
#include "worker_runtime/group/call_log.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ddprun {

/// Maximum number of queued works, above which calls block. A reducer queues a few dozen.
inline constexpr std::size_t kQueuedWorksMax = 1024;
/// Maximum number of works launched on a device, in addition to the queued ones.
inline constexpr std::size_t kLaunchedWorksMax = 1024;

class WorkQueue;

struct Work::State {
  Operation operation;
  Deadline::Clock::time_point queued;
  std::shared_ptr<WorkQueue> queue;  ///< owns the mutex that guards the members below
  std::thread::id caller = {};       ///< thread that called the collective
  /// The caller's previous work on the device, if of another group; reset at the launch.
  std::shared_ptr<Work::State> before = nullptr;
  bool is_first = false;       ///< no other work was queued or running at the call
  bool has_begun = false;      ///< it is running or has ended
  std::uint64_t flight = 0;    ///< number in the call log, once it has been entered
  std::uint64_t launch = 0;    ///< 1-based launch index on the device; 0 if not launched
  std::uint64_t capture = 0;   ///< DeviceQueue::capture_of() of its stream; 0 if not captured
  std::uint64_t captured = 0;  ///< 1-based index in the capture
  Deadline::Clock::time_point started = {};
  std::atomic<bool> is_done = false;
  std::exception_ptr failure = nullptr;
  bool is_timed = false;  ///< `ended` is valid when is_done
  Deadline::Clock::time_point ended = {};
};

class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  WorkQueue(std::unique_ptr<Backend> backend, std::size_t ranks, const GroupOptions& options,
            CallLog log);
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue();

  /// Starts the communication thread, which connects to the other ranks. wait_entered() blocks
  /// until all are connected, and throws if that fails.
  void start(Deadline deadline);
  void wait_entered();

  /// Runs all queued works and ends the thread. Afterwards only Work handles may be used.
  void stop();

  /// Queues a call. Blocks while the queue is full, at most for collective_timeout. For device
  /// buffers `stream` is the stream of ProcessGroup::set_stream(). Throws Error{Errc::usage}
  /// without side effects if it is being captured and the call cannot be captured.
  Work push(const Operation& operation, void* stream);
  void wait(const Work::State& work, Deadline deadline);
  /// Makes later work on `stream` wait for `work`. Blocks until `work` is launched; for a work on
  /// host buffers, until it has ended.
  void hold(const Work::State& work, void* stream);
  void record_end_time(Work::State& work);
  std::optional<Deadline::Clock::time_point> end_time(const Work::State& work);

  /// Fails the group on all ranks, with `rank_name` as the origin. Does nothing in a forked child.
  void abort(const std::string& reason, const std::string& rank_name);
  /// Allocates on `device`, or on the host if it is null.
  std::shared_ptr<void> allocate(std::size_t bytes, const Device* device);

  bool is_of_this_process() const { return process_.is_this(); }
  /// Throws Error{Errc::usage} in a forked child, as do the functions for works that have not
  /// ended: the mutex may be locked by a thread that exists only in the parent.
  void require_own_process() const;
  /// Fails the group because `operation` was called while another thread was calling a collective
  /// or waiting for its own: the order of calls may already differ between ranks.
  [[noreturn]] void refuse_second_thread(const Operation& operation);

  /// Null if the backend does not support device buffers.
  DeviceQueue* device() const { return device_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  class RecordedWait;
  /// Next step of the communication thread.
  enum class Step { await_calls, await_other_thread, poll, leave_to_caller, run };

  std::uint64_t capture_of(const Operation& operation, void* stream);
  [[noreturn]] void refuse_capture(const Operation& operation, const std::string& reason) const;
  Work capture(const Operation& operation, void* stream, std::uint64_t capture);
  void capture_now(Work::State& work, void* stream, Lock& lock);
  void watch(Lock& lock);
  std::shared_ptr<Work::State> number(const Operation& operation);
  void mark(Work::State& work, void* stream, Lock& lock);
  void await_turn(const Work::State& before, Deadline deadline);
  bool wait_launched(const Work::State& work);
  void wait_for_space(Lock& lock);
  [[noreturn]] void throw_timeout(const Work::State& work, Deadline deadline) const;
  void communicate(Deadline join_deadline);
  Step next_step() const;
  void advance(Lock& lock);
  void run_next(Lock& lock);
  void end_running();
  bool start_operation(Work::State& work);
  bool is_left_to_caller(const Work::State& work) const;
  bool poll_device(Lock& lock);
  void pause(std::condition_variable& other, Lock& lock);
  void finish(Work::State& work, std::exception_ptr failure);
  void fail_all(const std::exception_ptr& failure);
  void report(const Work::State& work) const;

  const OwnProcess process_;
  const std::unique_ptr<Backend> backend_;
  DeviceQueue* const device_;  ///< owned by the backend; null if it has none
  const std::size_t ranks_;
  const GroupOptions options_;
  CallLog log_;  ///< used by the thread that runs works; its waits by all, with mutex_ locked
  std::promise<void> entered_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;                 ///< a work has ended, or the queue has space
  std::condition_variable wanted_;                  ///< wakes the communication thread
  std::deque<std::shared_ptr<Work::State>> works_;  ///< queued works; the first may be running
  /// Works on the device. Only the thread that has set is_running_ changes them.
  std::deque<std::shared_ptr<Work::State>> launched_;
  std::uint64_t launches_ = 0;
  std::chrono::microseconds pause_{};  ///< until the next poll of the device
  bool is_running_ = false;
  std::thread::id own_waiter_;  ///< thread that waits for its own work
  bool polls_soon_ = false;     ///< the communication thread needs no notification
  bool is_stopping_ = false;
  std::atomic<bool> uses_device_ = false;  ///< a device buffer has been used
  bool is_watching_ = false;               ///< graphs with captured works may exist
  std::uint64_t calls_ = 0;
  std::uint64_t collectives_ = 0;         ///< calls without messages
  std::exception_ptr failure_ = nullptr;  ///< sticky
};

}  // namespace ddprun
