// Determines which stop signals form one request. Single-threaded.
#pragma once

#include <chrono>
#include <csignal>
#include <optional>

namespace ddprun {

/// Time within which stop signals form one request. Schedulers send signals repeatedly: under
/// Slurm, the step and srun both do, up to 35 ms apart.
inline constexpr auto kOneStopRequest = std::chrono::seconds(2);

class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;

  /// Signals within `one_request` of the first one belong to the first request.
  explicit StopRequests(Clock::duration one_request = kOneStopRequest)
      : one_request_(one_request) {}

  enum class Meaning {
    stop,      ///< the first request
    repeated,  ///< repetition of the first request
    kill,      ///< further request: kill the workers
  };

  /// Returns the meaning of a signal. A second SIGINT (Ctrl-C) is always a further request.
  Meaning take(int signal, Clock::time_point now) {
    const bool is_typed_again = signal == SIGINT && has_interrupt_;
    has_interrupt_ = has_interrupt_ || signal == SIGINT;
    if (!first_) {
      first_ = now;
      return Meaning::stop;
    }
    return is_typed_again || now >= *first_ + one_request_ ? Meaning::kill : Meaning::repeated;
  }

 private:
  Clock::duration one_request_;
  std::optional<Clock::time_point> first_;
  bool has_interrupt_ = false;
};

}  // namespace ddprun
