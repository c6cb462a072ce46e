// The driver's management library, by a fake one, and the judgement of what it reports.
#include "worker_runtime/preflight/nvml.hpp"

#include "tests/support/temporary_folder.hpp"
#include "worker_runtime/preflight/gpu_health.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace nvml_test {

using namespace ddprun::preflight;
using ddprun::test::TemporaryFolder;

namespace {

constexpr const char* kFake = DDPRUN_BIN_DIR "/fake_nvml/libnvidia-ml.so.1";

/// The file that the fake library reads.
class FakeDriver {
 public:
  explicit FakeDriver(const std::string& lines) {
    const std::string file = folder_ / "gpus";
    std::ofstream(file) << lines;
    ::setenv("DDPRUN_FAKE_NVML", file.c_str(), 1);
  }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;
  ~FakeDriver() { ::unsetenv("DDPRUN_FAKE_NVML"); }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_SUITE("nvml") {
  TEST_CASE("nvml: a missing library or driver is not an error") {
    CHECK_FALSE(Nvml::open("libnvidia-ml-missing.so.1"));
    CHECK_FALSE(Nvml::open("libm.so.6"));
    const FakeDriver driver("init 9\n");
    CHECK_FALSE(Nvml::open(kFake));
  }

  TEST_CASE("nvml: the state of a GPU is found by its address") {
    const FakeDriver driver("gpu 0000:01:00.0 3 1 0 72\ngpu 0000:41:00.0 -1 -1 -1 -1\n");
    const auto nvml = Nvml::open(kFake);
    REQUIRE(nvml);
    CHECK(nvml->state_of("0000:01:00.0") == GpuState{.uncorrected_errors = 3,
                                                     .is_remap_pending = true,
                                                     .has_remap_failed = false,
                                                     .clock_reasons = 72});
    CHECK(nvml->state_of("0000:41:00.0") == GpuState{});
    CHECK_FALSE(nvml->state_of("0000:42:00.0"));
  }
}

TEST_SUITE("gpu health") {
  TEST_CASE("gpu health: errors of the memory are problems and reduced clocks a remark") {
    struct Row {
      GpuState state;
      GpuHealth expected;
    };
    const std::string reset = "; reset the GPU (nvidia-smi --gpu-reset) or restart the node";
    const Row rows[] = {
        {{}, {}},
        {{.uncorrected_errors = 1},
         {"its memory has had 1 uncorrectable ECC error since its last reset" + reset, ""}},
        {{.is_remap_pending = true},
         {"the remapping of a faulty row of its memory is pending" + reset, ""}},
        {{.uncorrected_errors = 2, .is_remap_pending = true},
         {"the remapping of a faulty row of its memory is pending" + reset +
              "; its memory has had 2 uncorrectable ECC errors since its last reset",
          ""}},
        {{.is_remap_pending = true, .has_remap_failed = true},
         {"a faulty row of its memory could not be remapped; replace the GPU", ""}},
        // Idle, limits of applications, software power cap, and a display.
        {{.clock_reasons = 0x1 | 0x2 | 0x4 | 0x100}, {}},
        {{.clock_reasons = 0x8}, {"", "its clocks are reduced: hardware slowdown"}},
        {{.clock_reasons = 0x8 | 0x40}, {"", "its clocks are reduced: temperature (hardware)"}},
        {{.clock_reasons = 0x4 | 0x8 | 0x20 | 0x80},
         {"", "its clocks are reduced: temperature (software), power brake"}},
    };
    for (const auto& row : rows) {
      const auto health = judge_health(row.state);
      CHECK(health.problem == row.expected.problem);
      CHECK(health.remark == row.expected.remark);
    }
  }
}

}  // namespace nvml_test
