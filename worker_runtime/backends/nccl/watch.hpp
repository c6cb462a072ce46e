// Waiting for what can only be asked after: NCCL and CUDA tell of an end when they are asked, and
// of a dead peer on the same machine not even then.
#pragma once

#include <ddprun/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddprun::nccl {

/// Wakes who waits. Any thread.
class Alarm {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    has_rung_ = true;
    changed_.notify_all();
  }

  /// Returns earlier once it has rung.
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
  /// Throws if there is no sense in waiting any longer.
  std::function<void()> look;
};

/// How long to sleep after so long a wait, which gets longer by a fiftieth at most.
inline std::chrono::microseconds pause_after(Deadline::Duration waited) {
  constexpr std::chrono::microseconds kShortestPause{20};
  // A worker that has died is heard of this much later at most.
  constexpr std::chrono::microseconds kLongestPause{1000};
  constexpr int kShare = 50;
  const auto share = std::chrono::duration_cast<std::chrono::microseconds>(waited / kShare);
  return std::clamp(share, kShortestPause, kLongestPause);
}

/// False if the deadline passed before `is_done()`. Throws what it and `look` throw.
template <typename IsDone>
bool await(const IsDone& is_done, const Watch& watch) {
  // Collectives of small buffers take some ten microseconds, those that are worth a sleep hundreds.
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
