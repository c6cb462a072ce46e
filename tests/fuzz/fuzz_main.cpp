// libFuzzer's entry. CMake sets the target of the program.
#include "tests/fuzz/checkpoint_target.hpp"
#include "tests/fuzz/config_target.hpp"
#include "tests/fuzz/dialogue_target.hpp"
#include "tests/fuzz/etcd_target.hpp"
#include "tests/fuzz/failure_target.hpp"
#include "tests/fuzz/flights_target.hpp"
#include "tests/fuzz/meeting_target.hpp"
#include "tests/fuzz/membership_target.hpp"
#include "tests/fuzz/page_target.hpp"
#include "tests/fuzz/ssh_target.hpp"
#include "tests/fuzz/stacks_target.hpp"
#include "tests/fuzz/store_target.hpp"
#include "tests/fuzz/symbols_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::DDPRUN_FUZZ_TARGET({data, size});
  return 0;
}
