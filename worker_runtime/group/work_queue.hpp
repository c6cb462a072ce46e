// The works of one group in call order, and who carries them out: the group's communication thread,
// or a thread that waits for a work and would otherwise sleep. The latter spares a call that is
// waited for at once two switches between threads, which is many times what a small collective
// takes; so the communication thread leaves a lone new work to its caller for a moment.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/group/call_log.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
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

class WorkQueue;

struct Work::State {
  Operation operation;
  Deadline::Clock::time_point queued;
  std::shared_ptr<WorkQueue> queue;  ///< keeps the mutex below which the rest is alive
  bool is_first = false;             ///< nothing was queued or running before it
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
  Work push(const Operation& operation);
  void wait(const Work::State& work, Deadline deadline);
  void keep_end_time(Work::State& work);
  std::optional<Deadline::Clock::time_point> end_time(const Work::State& work);

  /// The other ranks are told that it was `who`, where the backend tells them anything.
  void abort(const std::string& reason, const std::string& who);
  std::shared_ptr<void> allocate(std::size_t bytes) { return backend_->allocate(bytes); }
  bool reaches(Device::Kind kind) const { return backend_->reaches(kind); }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void await_room(Lock& lock);
  [[noreturn]] void give_up(const Work::State& work, Deadline deadline) const;
  void communicate(Deadline join_deadline);
  void run_next(Lock& lock);
  void finish(Work::State& work, std::exception_ptr failure);
  void fail_all(const std::exception_ptr& failure);
  void report(const Work::State& work, Deadline::Clock::time_point started) const;

  const std::unique_ptr<Backend> backend_;
  const std::size_t ranks_;
  const GroupOptions options_;
  CallLog log_;  ///< of who carries works out, one at a time
  std::promise<void> entered_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;  ///< a work has ended, or the queue has room again
  std::condition_variable wanted_;   ///< for the communication thread
  std::deque<std::shared_ptr<Work::State>> works_;  ///< the first may be running
  bool is_running_ = false;
  bool is_attentive_ =
      false;  ///< the communication thread looks at the queue soon without being told
  bool is_stopping_ = false;
  std::uint64_t calls_ = 0;
  std::uint64_t collectives_ = 0;         ///< of them
  std::exception_ptr failure_ = nullptr;  ///< sticky
};

}  // namespace ddprun
