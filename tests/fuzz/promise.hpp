// What a fuzzer's target does when the code under it breaks a promise: libFuzzer keeps the input of
// an abort, and so does whoever runs the corpus as a test.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace ddprun::fuzz {

inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace ddprun::fuzz
