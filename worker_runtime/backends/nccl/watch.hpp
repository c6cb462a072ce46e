// Waits by polling. NCCL and CUDA have no notification of an end, and do not detect the death of a
// rank on the same machine.
#pragma once

#include <ddprun/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddprun::nccl {

/// Wakes waiting threads. Any thread.
class Alarm {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    has_rung_ = true;
    changed_.notify_all();
  }

  /// Returns early after ring().
  void wait_for(std::chrono::microseconds pause) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [this] { return has_rung_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_rung_ = false;
};

struct Watch {
  Deadline deadline;
  Alarm& alarm;
  /// Throws if the wait must end.
  std::function<void()> look;
};

/// Returns the sleep after a wait of this length, at most a fiftieth of it.
inline std::chrono::microseconds pause_after(Deadline::Duration waited) {
  constexpr std::chrono::microseconds kShortestPause{20};
  // Maximum delay in the detection of a dead worker.
  constexpr std::chrono::microseconds kLongestPause{1000};
  constexpr int kShare = 50;
  const auto share = std::chrono::duration_cast<std::chrono::microseconds>(waited / kShare);
  return std::clamp(share, kShortestPause, kLongestPause);
}

/// Returns false if the deadline passes before `is_done()`. Throws what `is_done` and `look` throw.
template <typename IsDone>
bool await(const IsDone& is_done, const Watch& watch) {
  // Small collectives take tens of microseconds; sleeping pays off from hundreds.
  constexpr int kAtOnce = 200;
  const auto start = Deadline::Clock::now();
  for (int i = 0; !is_done(); ++i) {
    if (i < kAtOnce) {
      std::this_thread::yield();
      continue;
    }
    watch.look();
    if (watch.deadline.passed()) return false;
    watch.alarm.wait_for(pause_after(Deadline::Clock::now() - start));
  }
  return true;
}

}  // namespace ddprun::nccl
