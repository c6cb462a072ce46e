// A polite stop: SIGTERM and SIGINT only leave a note, and the training loop ends after the step
// under way. A second signal ends the program as usual.
#pragma once

#include <csignal>

namespace trainer {

class StopSignal {
 public:
  /// Catches the signals from now on if `enabled`. At most one object at a time.
  explicit StopSignal(bool enabled);
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Restores what the signals did before.
  ~StopSignal();

  /// The number of the signal that came to this worker, 0 if none did.
  int received() const;

 private:
  bool enabled_;
  struct sigaction old_terminate_ = {};
  struct sigaction old_interrupt_ = {};
};

}  // namespace trainer
