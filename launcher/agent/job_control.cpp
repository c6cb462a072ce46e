#include "launcher/agent/job_control.hpp"

#include "rendezvous/base/run_clock.hpp"

#include <csignal>

namespace ddprun {

bool can_be_suspended() {
  struct sigaction action {};
  return ::sigaction(SIGTSTP, nullptr, &action) == 0 && action.sa_handler != SIG_IGN;
}

std::chrono::steady_clock::duration suspend(Containment& containment, OutputRouter& router) {
  const auto begin = std::chrono::steady_clock::now();
  router.leave_terminal();
  containment.freeze();
  // The shell sees a SIGTSTP, as from any other program.
  ::raise(SIGTSTP);
  containment.thaw();
  const auto duration = std::chrono::steady_clock::now() - begin;
  RunClock::add_suspension(duration);
  return duration;
}

}  // namespace ddprun
