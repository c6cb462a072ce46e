#include "launcher/agent/job_control.hpp"

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
  // The shell is told of a SIGTSTP, as it is of any other program.
  ::raise(SIGTSTP);
  containment.thaw();
  return std::chrono::steady_clock::now() - begin;
}

}  // namespace ddprun
