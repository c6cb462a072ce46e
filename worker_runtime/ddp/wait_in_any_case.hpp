// For works that end because their group was aborted.
#pragma once

#include <ddprun/process_group.hpp>

#include <exception>

namespace ddprun {

inline void wait_in_any_case(const Work& work) noexcept {
  try {
    work.wait();
  } catch (const std::exception&) {
    // It has ended, which is all that matters here.
  }
}

}  // namespace ddprun
