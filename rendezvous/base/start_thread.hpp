// Starts threads that must not run the program's signal handlers.
#pragma once

#include <functional>
#include <thread>

namespace ddprun {

/// Runs `body` on a new thread in which all signals are blocked. Restores the caller's signal mask.
/// Throws std::system_error if the thread cannot be created.
std::thread start_thread(std::function<void()> body);

}  // namespace ddprun
