// Detects workers' deaths from the control page, long before the kernel has released their memory
// and reports the end through the pidfd. A separate thread waits for changes of the page.
#pragma once

#include "rendezvous/control/control_page.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace ddprun {

class DeathWatch {
 public:
  /// Calls `on_death` with a local rank, on the watch's thread, at most once for each rank: if the
  /// worker's main thread has died, unless by _exit(0); if it announced an exit with a status other
  /// than 0; or if its slot of the page is damaged. `damage` describes the damage, which the worker
  /// may have repaired by the time of the call. Calls `on_change` on the same thread after other
  /// changes of the page, for example new process groups, including changes before the watch's
  /// start. Checks at most once per kCheckPeriod and calls `on_change` at most once per
  /// kChangePeriod, at any rate of changes. `pids` are the workers' by local rank. `page` outlives
  /// this object. Throws std::system_error if the thread cannot be started.
  DeathWatch(const control::ControlPage& page, std::vector<pid_t> pids,
             std::function<void(int local_rank, std::optional<std::string> damage)> on_death,
             std::function<void()> on_change);

  /// Stops the thread and waits for it.
  ~DeathWatch();

  static constexpr auto kCheckPeriod = std::chrono::milliseconds(1);
  static constexpr auto kChangePeriod = std::chrono::milliseconds(50);

  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

 private:
  void run();
  void check();
  bool is_failure(int local_rank);
  bool must_stop_before(Deadline deadline);

  const control::ControlPage& page_;
  std::vector<pid_t> pids_;
  std::function<void(int, std::optional<std::string>)> on_death_;
  std::function<void()> on_change_;
  std::unique_ptr<bool[]> is_settled_;  ///< by local rank: reported, or left to the pidfd
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool must_stop_ = false;
  bool has_stopped_ = false;
  std::thread thread_;
};

}  // namespace ddprun
