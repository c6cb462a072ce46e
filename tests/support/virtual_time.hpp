// A clock that jumps from event to event, and randomness from one seed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <tuple>

namespace ddprun::test {

class VirtualTime {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit VirtualTime(std::uint64_t seed) : random_(seed) {}

 protected:
  static constexpr Time kBegin{std::chrono::hours(1)};

  int any(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  bool chance(int percent) { return any(1, 100) <= percent; }
  /// Network delay: usually short.
  std::chrono::milliseconds delay() {
    return std::chrono::milliseconds(chance(90) ? any(0, 5) : any(5, 400));
  }

  /// Events of the same time run in the order in which they were planned.
  void at(Time when, std::function<void()> what) {
    events_.push({std::max(when, now_), ++event_number_, std::move(what)});
  }
  void after(std::chrono::milliseconds time, std::function<void()> what) {
    at(now_ + time, std::move(what));
  }
  void after(int time, std::function<void()> what) {
    after(std::chrono::milliseconds(time), std::move(what));
  }

  void play_until(Time limit, const std::function<bool()>& goes_on) {
    while (!events_.empty() && events_.top().when <= limit && goes_on()) {
      const auto event = events_.top();
      events_.pop();
      now_ = event.when;
      event.what();
    }
  }

  Time now_ = kBegin;

 private:
  struct Planned {
    Time when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Planned& other) const {
      return std::tie(when, number) > std::tie(other.when, other.number);
    }
  };

  std::mt19937_64 random_;
  std::priority_queue<Planned> events_;
  std::uint64_t event_number_ = 0;
};

}  // namespace ddprun::test
