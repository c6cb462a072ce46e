// The driver's management library, by a fake one, and the judgement of what it reports.
#include "worker_runtime/preflight/nvml.hpp"

#include "tests/support/temporary_folder.hpp"
#include "worker_runtime/preflight/gpu_health.hpp"
#include "worker_runtime/preflight/gpu_holders.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

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

  TEST_CASE("nvml: processes are listed unless they are in a MIG instance") {
    const FakeDriver driver(
        "gpu 0000:01:00.0 -1 -1 -1 -1\nprocess 0000:01:00.0 4711 4096 -1\n"
        "process 0000:01:00.0 4712 -1 -1\nprocess 0000:01:00.0 4713 1 7\n"
        "process 0000:01:00.0 -1 1 -1\n"
        "process 0000:41:00.0 4714 1 -1\n");
    const auto nvml = Nvml::open(kFake);
    REQUIRE(nvml);
    CHECK(nvml->state_of("0000:01:00.0")->processes ==
          std::vector<GpuProcess>{{.pid = 4711, .memory_bytes = 4096}, {.pid = 4712}});
  }

  TEST_CASE("nvml: a list of more than 1024 processes is ignored") {
    std::string lines = "gpu 0000:01:00.0 5 -1 -1 -1\n";
    for (int pid = 1; pid <= 1025; ++pid)
      lines += "process 0000:01:00.0 " + std::to_string(pid) + " 1 -1\n";
    const FakeDriver driver(lines);
    const auto nvml = Nvml::open(kFake);
    REQUIRE(nvml);
    CHECK(nvml->state_of("0000:01:00.0") == GpuState{.uncorrected_errors = 5});
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

TEST_SUITE("gpu holders") {
  TEST_CASE("gpu holders: processes that do not check the node are named") {
    constexpr int kOwn = 10;
    constexpr std::uint64_t kGibi = 1 << 30;
    const auto find = [](int pid) -> std::optional<ProcessFacts> {
      if (pid == kOwn || pid == 11) return ProcessFacts{.name = "ddprun-preflight", .parent = 9};
      if (pid == 20) return ProcessFacts{.name = "python3\x1b", .parent = 9000};
      if (pid == 12) return ProcessFacts{.name = "nvidia-cuda-mps", .parent = 1};
      if (pid == 21) return ProcessFacts{.name = "a", .parent = 1, .is_of_other_user = true};
      return std::nullopt;
    };
    struct Row {
      std::vector<GpuProcess> processes;
      const char* remark;
    };
    const GpuProcess own{kOwn, kGibi}, sibling{11, kGibi};
    const Row rows[] = {
        {{}, ""},
        {{own, sibling, {12, kGibi}}, ""},
        // The list of another PID namespace.
        {{sibling, {20, kGibi}}, ""},
        {{own, {20, 30 * kGibi + kGibi / 5}},
         "process 20 (python3\\x1b) holds 30.2 GiB of its memory"},
        {{{21, {}}, own, {22, 0}},
         "process 21 (a, of another user) holds some of its memory; process 22 holds 0.0 GiB of "
         "its memory"},
        {{own, {30, kGibi}, {31, kGibi}, {32, kGibi}, {33, kGibi}, {34, kGibi}},
         "process 30 holds 1.0 GiB of its memory; process 31 holds 1.0 GiB of its memory; process "
         "32 holds 1.0 GiB of its memory; 2 more processes hold some"},
    };
    for (const auto& row : rows) CHECK(remark_on_holders(row.processes, kOwn, find) == row.remark);
  }

  TEST_CASE("gpu holders: facts about a process are those of /proc") {
    const auto self = find_process(::getpid());
    REQUIRE(self);
    CHECK(self->parent == ::getppid());
    CHECK(self->name.starts_with("worker_runtime_"));  // at most 15 characters
    CHECK_FALSE(self->is_of_other_user);
    CHECK_FALSE(find_process(0));
  }
}

}  // namespace nvml_test
