#include "ddprun_version.hpp"

#include <cstdio>

int main() {
  std::printf("ddprun %s\n", ddprun::kVersion);
  return 0;
}
