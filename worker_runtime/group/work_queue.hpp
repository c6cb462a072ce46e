// The works of one group in call order, and who carries them out: the group's communication thread,
// or a thread that waits for a work and would otherwise sleep. The latter spares a call that is
// waited for at once two switches between threads, which is many times what a small collective
// takes; so the communication thread leaves a lone new work to its caller for a moment.
//
// Works of buffers on a device are handed to it one after another, and end there in that order: the
// communication thread, or who waits, asks the device how far it is.
//
// A call on a stream that is being captured is carried out by its caller, there and then, once all
// works before it are with the device; it becomes part of a graph. Nothing is known here of the
// graph's launches, so from then on the communication thread looks whether the group still stands.
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

/// A reducer has a few dozen works under way; a caller that never waits is stopped here.
inline constexpr std::size_t kQueuedWorksMax = 1024;
/// A device has so many works at most; as many again may be queued behind them.
inline constexpr std::size_t kFlyingWorksMax = 1024;

class WorkQueue;

struct Work::State {
  Operation operation;
  Deadline::Clock::time_point queued;
  std::shared_ptr<WorkQueue> queue;  ///< keeps the mutex below which the rest is alive
  std::thread::id caller = {};       ///< the thread that has called the collective
  bool is_first = false;             ///< nothing was queued or running before it
  bool has_begun = false;            ///< somebody is carrying it out, or has
  std::uint64_t flight = 0;          ///< of the log, once it has been entered
  std::uint64_t launch = 0;    ///< the device's how manieth it is, from 1; 0: it has not got it
  std::uint64_t capture = 0;   ///< DeviceQueue::capture_of() of its stream; it is done then
  std::uint64_t captured = 0;  ///< the capture's how manieth it is, from 1
  Deadline::Clock::time_point started = {};
  std::atomic<bool> is_done = false;
  std::exception_ptr failure = nullptr;
  bool is_timed = false;  ///< `ended` is set with is_done
  Deadline::Clock::time_point ended = {};
};

class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  WorkQueue(std::unique_ptr<Backend> backend, std::size_t ranks, const GroupOptions& options,
            CallLog log);
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  ~WorkQueue();

  /// Starts the communication thread, which meets the other ranks; wait_entered() returns when they
  /// are there and throws when they do not come.
  void start(Deadline deadline);
  void wait_entered();

  /// Carries out what is queued and ends the thread. Afterwards only Work handles are left.
  void stop();

  /// Blocks while the queue is full, at most the time a collective may take.
  /// For buffers on a device `stream` is what they depend on, as in ProcessGroup::set_stream().
  /// Throws Error{Errc::usage}, and nothing has happened, if it is being captured and the call
  /// cannot be.
  Work push(const Operation& operation, void* stream);
  void wait(const Work::State& work, Deadline deadline);
  /// What `stream` is given from now on begins when `work` has ended. Blocks until the device has
  /// got it; a work of the host has to end for that.
  void hold(const Work::State& work, void* stream);
  void keep_end_time(Work::State& work);
  std::optional<Deadline::Clock::time_point> end_time(const Work::State& work);

  /// The other ranks are told that it was `who`, where the backend tells them anything. Does
  /// nothing in a forked child.
  void abort(const std::string& reason, const std::string& who);
  /// On `device` if that is not null.
  std::shared_ptr<void> allocate(std::size_t bytes, const Device* device);

  bool is_of_this_process() const { return process_.is_this(); }
  /// Throws Error{Errc::usage} in a forked child, as do the functions for works that have not
  /// ended: the lock may be held by a thread that does not exist here.
  void require_own_process() const;
  /// `operation` was called while another thread was calling one, or waiting for one that it had
  /// called. The ranks may be in different orders already, so the group fails on all.
  [[noreturn]] void refuse_second_thread(const Operation& operation);

  /// Null if buffers cannot be on a device.
  DeviceQueue* device() const { return device_; }

 private:
  using Lock = std::unique_lock<std::mutex>;

  std::uint64_t capture_of(const Operation& operation, void* stream);
  [[noreturn]] void refuse_capture(const Operation& operation, const std::string& reason) const;
  Work capture(const Operation& operation, void* stream, std::uint64_t capture);
  void capture_now(Work::State& work, void* stream, Lock& lock);
  void watch(Lock& lock);
  std::shared_ptr<Work::State> number(const Operation& operation);
  void mark(Work::State& work, void* stream, Lock& lock);
  void await_room(Lock& lock);
  [[noreturn]] void give_up(const Work::State& work, Deadline deadline) const;
  void communicate(Deadline join_deadline);
  void advance(Lock& lock);
  void run_next(Lock& lock);
  bool carry_out(Work::State& work);
  bool is_left_to_caller(const Work::State& work) const;
  bool look_at_device(Lock& lock);
  void pause(std::condition_variable& other, Lock& lock);
  void finish(Work::State& work, std::exception_ptr failure);
  void fail_all(const std::exception_ptr& failure);
  void report(const Work::State& work) const;

  const OwnProcess process_;
  const std::unique_ptr<Backend> backend_;
  DeviceQueue* const device_;  ///< the backend's; null: it has none
  const std::size_t ranks_;
  const GroupOptions options_;
  CallLog log_;  ///< of who carries works out, one at a time
  std::promise<void> entered_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;  ///< a work has ended, or the queue has room again
  std::condition_variable wanted_;   ///< for the communication thread
  std::deque<std::shared_ptr<Work::State>> works_;  ///< the first may be running
  /// The device has these. Only who has set is_running_ changes them.
  std::deque<std::shared_ptr<Work::State>> flying_;
  std::uint64_t launches_ = 0;
  std::chrono::microseconds pause_{};  ///< until the device is asked again
  bool is_running_ = false;
  std::thread::id own_waiter_;  ///< a thread that waits for a work that it has called itself
  bool is_attentive_ =
      false;  ///< the communication thread looks at the queue soon without being told
  bool is_stopping_ = false;
  std::atomic<bool> uses_device_ = false;  ///< a call of a buffer there has been made
  bool is_watching_ = false;               ///< there may be graphs with captured works
  std::uint64_t calls_ = 0;
  std::uint64_t collectives_ = 0;         ///< of them
  std::exception_ptr failure_ = nullptr;  ///< sticky
};

}  // namespace ddprun
