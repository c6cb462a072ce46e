// libFuzzer's entry for the handshake and the seals.
#include "tests/fuzz/dialogue_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::run_dialogue({data, size});
  return 0;
}
