// Aborts if the code under a fuzz target violates an invariant: libFuzzer keeps the input of an
// abort, and a corpus test reports it.
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
