// Graceful stop: SIGTERM and SIGINT set a flag, and the training loop ends after the current step.
// A second signal has its default effect.
#pragma once

#include <csignal>

namespace trainer {

class StopSignal {
 public:
  /// Catches the signals if `enabled`. At most one object at a time.
  explicit StopSignal(bool enabled);
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Restores the previous handlers.
  ~StopSignal();

  /// Returns the number of the received signal; 0 if none.
  int received() const;

 private:
  bool enabled_;
  struct sigaction old_terminate_ = {};
  struct sigaction old_interrupt_ = {};
};

}  // namespace trainer
