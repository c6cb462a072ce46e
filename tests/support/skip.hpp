// Skips tests on machines without their requirements. A program with a skipped test exits with 77,
// which ctest reports as skipped.
#pragma once

#include <cstdio>
#include <string>

namespace ddprun::test {

inline constexpr int kSkippedExitCode = 77;

inline bool& has_skipped() {
  static bool flag = false;
  return flag;
}

/// Replaces the rest of a test.
inline void skip(const std::string& reason) {
  has_skipped() = true;
  std::printf("skipped: %s\n", reason.c_str());
}

}  // namespace ddprun::test
