// libFuzzer's entry for the store's parser and table.
#include "tests/fuzz/store_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::run_store({data, size});
  return 0;
}
