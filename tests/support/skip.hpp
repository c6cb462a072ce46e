// Tests of what a machine may lack. A program of which a test was skipped exits with 77, which
// ctest shows as skipped.
#pragma once

#include <cstdio>
#include <string>

namespace ddprun::test {

inline constexpr int kSkippedExitCode = 77;

inline bool& has_skipped() {
  static bool flag = false;
  return flag;
}

/// To be called in place of the rest of a test.
inline void skip(const std::string& reason) {
  has_skipped() = true;
  std::printf("skipped: %s\n", reason.c_str());
}

}  // namespace ddprun::test
