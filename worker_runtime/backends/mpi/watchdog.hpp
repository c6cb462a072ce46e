// MPI's calls know no time limit and cannot be interrupted. So a call that must not go on takes the
// process with it, which is what mpirun makes of a failure anyway: this thread watches the calls of
// one group and ends the process when one is late, when the group is aborted or when the agent ends
// the attempt, because another worker has failed.
#pragma once

#include "rendezvous/control/control_page.hpp"
#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/shared_memory/futex.hpp"
#include <ddprun/deadline.hpp>

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ddprun::mpi {

class Watchdog {
 public:
  /// `page` may be empty. `ends_all`: mpirun, which has started the ranks, is to end all of them.
  Watchdog(std::string group, int ranks, std::optional<control::ControlPage> page, bool ends_all);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// `operation` is under way until end(). Costs a lock each, and wakes nobody as long as
  /// deadlines become later. Throws PeerFailed if the attempt has been ended already.
  void begin(const Operation& operation, Deadline deadline);
  void end();

  /// Ends the process if an operation is under way.
  void abort(const std::string& reason);

 private:
  void watch();
  void wake() noexcept;
  [[noreturn]] void end_process(const std::string& reason) const;

  const std::string group_;
  const std::size_t ranks_;
  const std::optional<control::ControlPage> page_;
  const bool ends_all_;
  std::mutex mutex_;
  const Operation* operation_ = nullptr;  ///< under way
  Deadline deadline_ = Deadline::never();
  Deadline::Clock::time_point sleeps_until_ = Deadline::Clock::time_point::max();
  bool is_closing_ = false;
  std::atomic<std::uint32_t> wakes_ = 0;  ///< futex, to be slept on beside that of the page
  std::thread thread_;
};

}  // namespace ddprun::mpi
