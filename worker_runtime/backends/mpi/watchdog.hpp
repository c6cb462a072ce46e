// MPI's calls know no time limit and cannot be interrupted. So a call that must not go on takes the
// process with it, which is what mpirun makes of a failure anyway: this thread watches the calls of
// one group and ends the process when one is late or the group is aborted.
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

  /// `operation` is under way until end(). Costs a lock each, and does not wake the thread as long
  /// as deadlines become later.
  void begin(const Operation& operation, Deadline deadline);
  void end();

  /// Ends the process if an operation is under way.
  void abort(const std::string& reason);

 private:
  void watch();
  [[noreturn]] void end_process(const std::string& reason) const;

  const std::string group_;
  const std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const Operation* operation_ = nullptr;  ///< under way
  Deadline deadline_ = Deadline::never();
  Deadline::Clock::time_point sleeps_until_ = Deadline::Clock::time_point::max();
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace ddprun::mpi
