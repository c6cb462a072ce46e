// Ends the process if an MPI call of a group is late or the group is aborted, since MPI calls have
// no timeout and cannot be interrupted. mpirun then ends all ranks, as after any failure.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include <ddprun/deadline.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ddprun::mpi {

class Watchdog {
 public:
  Watchdog(std::string group, int ranks);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// Marks `operation` as running until end(). Locks a mutex; wakes the thread only if the deadline
  /// is earlier than the previous one.
  void begin(const Operation& operation, Deadline deadline);
  void end();

  /// Ends the process if an operation is running.
  void abort(const std::string& reason);

 private:
  void watch();
  [[noreturn]] void end_process(const std::string& reason) const;

  const std::string group_;
  const std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const Operation* operation_ = nullptr;  ///< the running operation
  Deadline deadline_ = Deadline::never();
  Deadline::Clock::time_point sleeps_until_ = Deadline::Clock::time_point::max();
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace ddprun::mpi
