// Starts a thread of a group, with an Error if none can be created. Unlike start_thread() of
// rendezvous/base, it does not block signals: stacks are requested by a signal to each thread.
#pragma once

#include <ddprun/error.hpp>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun {

/// Returns a thread that calls `body`. Throws Error{Errc::system} that begins with `what`.
template <typename Body>
std::thread new_thread(const std::string& what, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw_system_error(what + ": starting a thread", error.code().value());
  }
}

}  // namespace ddprun
