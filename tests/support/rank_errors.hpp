// Runs a function as each rank of an in-process group and returns the error of each rank.
#pragma once

#include "tests/support/rank_threads.hpp"

#include <string>

namespace ddprun::test {

/// Text of each rank's exception in `body`; empty without one.
inline std::vector<std::string> errors_of_ranks(int size,
                                                const std::function<void(ProcessGroup&)>& body,
                                                const GroupOptions& options = {}) {
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  run_ranks(
      size,
      [&](ProcessGroup& group) {
        const auto rank = static_cast<std::size_t>(group.rank());
        try {
          body(group);
        } catch (const std::exception& exception) {
          errors[rank] = exception.what();
        }
      },
      options);
  return errors;
}

}  // namespace ddprun::test
