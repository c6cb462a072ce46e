// Waits for works of an aborted group.
#pragma once

#include <ddprun/process_group.hpp>

#include <exception>

namespace ddprun {

inline void wait_ignoring_errors(const Work& work) noexcept {
  try {
    work.wait();
  } catch (const std::exception&) {
    // Only the end of the work is needed.
  }
}

}  // namespace ddprun
