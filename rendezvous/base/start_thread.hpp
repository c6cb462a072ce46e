// Threads beside a program's own that must not run its signal handlers.
#pragma once

#include <functional>
#include <thread>

namespace ddprun {

/// Runs `body` on a new thread in which all signals are blocked. Throws std::system_error if the
/// thread cannot be created; the caller's signal mask is restored in any case.
std::thread start_thread(std::function<void()> body);

}  // namespace ddprun
