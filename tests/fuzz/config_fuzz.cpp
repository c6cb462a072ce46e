// libFuzzer's entry for configuration files.
#include "tests/fuzz/config_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::run_config({data, size});
  return 0;
}
