// libFuzzer's entry for the agents' protocol.
#include "tests/fuzz/membership_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::run_membership({data, size});
  return 0;
}
