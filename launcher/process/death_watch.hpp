// Learns of workers' deaths from the control page, long before the kernel has torn down their
// memory and the pidfd tells of it. A thread of its own sleeps on the page.
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
  /// Calls `tell` with a local rank, on the thread of its own, at most once for each: when the
  /// worker's main thread has died, unless by _exit(0), it announced an exit with a status other
  /// than 0, or its part of the page is damaged, which `damage` describes: the worker may have
  /// restored it by the time of the call. Calls `tell_change` there after any other
  /// change of the page, those before this call included: workers make process groups. Looks at
  /// most once per kLookPeriod and calls `tell_change` at most once per kChangePeriod, however
  /// often workers write. `pids` are the workers' by local rank. `page` outlives this. Throws
  /// std::system_error if no thread can be started.
  DeathWatch(const control::ControlPage& page, std::vector<pid_t> pids,
             std::function<void(int local_rank, std::optional<std::string> damage)> tell,
             std::function<void()> tell_change);

  /// Ends the thread and waits for it.
  ~DeathWatch();

  static constexpr auto kLookPeriod = std::chrono::milliseconds(1);
  static constexpr auto kChangePeriod = std::chrono::milliseconds(50);

  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

 private:
  void run();
  void look();
  bool is_failure(int local_rank);
  bool must_stop_before(Deadline deadline);

  const control::ControlPage& page_;
  std::vector<pid_t> pids_;
  std::function<void(int, std::optional<std::string>)> tell_;
  std::function<void()> tell_change_;
  std::unique_ptr<bool[]> is_settled_;  ///< by local rank: told, or left to the pidfd
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool must_stop_ = false;
  bool has_stopped_ = false;
  std::thread thread_;
};

}  // namespace ddprun
