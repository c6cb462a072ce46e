#include "launcher/process/start_policy.hpp"

#include <algorithm>
#include <cerrno>

namespace ddprun {

namespace {

bool can_pass(const StartFailure& failure, bool is_restart) {
  // Folders and files could be created before.
  if (is_restart && failure.step == StartStep::files) return true;
  switch (failure.error_number) {
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case ETXTBSY:
      return true;
    case ENOENT:
    case EACCES:
    case ENOEXEC:
    case ESTALE:
      // A program that has run before is probably being replaced: a linker removes the old file and
      // makes the new one executable at the end.
      return is_restart && (failure.step == StartStep::exec || failure.step == StartStep::folder);
    default:
      return false;
  }
}

std::chrono::milliseconds pause_after(int tries) {
  auto pause = kFirstStartPause;
  for (int i = 1; i < tries && pause < kLongestStartPause; ++i) pause *= 2;
  return std::min(pause, kLongestStartPause);
}

}  // namespace

StartDecision decide_after_failed_start(const FailedStart& start) {
  using Action = StartDecision::Action;
  if (!can_pass(start.failure, start.is_restart)) return {.action = Action::end_run};
  if (start.elapsed >= start.limit) return {.action = Action::fail_worker};
  return {.action = Action::retry,
          .pause = std::min(pause_after(start.tries), start.limit - start.elapsed)};
}

}  // namespace ddprun
