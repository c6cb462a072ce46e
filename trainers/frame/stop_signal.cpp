#include "trainers/frame/stop_signal.hpp"

namespace trainer {

namespace {

// Global, since a signal handler has no user argument.
volatile std::sig_atomic_t g_received = 0;

void note_signal(int signal) {
  g_received = signal;
}

}  // namespace

StopSignal::StopSignal(bool enabled) : enabled_(enabled) {
  if (!enabled_) return;
  g_received = 0;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGTERM, &action, &old_terminate_);
  ::sigaction(SIGINT, &action, &old_interrupt_);
}

StopSignal::~StopSignal() {
  if (!enabled_) return;
  ::sigaction(SIGTERM, &old_terminate_, nullptr);
  ::sigaction(SIGINT, &old_interrupt_, nullptr);
}

int StopSignal::received() const {
  return enabled_ ? static_cast<int>(g_received) : 0;
}

}  // namespace trainer
