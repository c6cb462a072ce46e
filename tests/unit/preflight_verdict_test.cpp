#include "launcher/agent/preflight_verdict.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace preflight_verdict_test {

using ddprun::DeviceExamined;
using ddprun::judge_devices;
using ddprun::objection_to_start;
using ddprun::PreflightOutcome;
using ddprun::PreflightReport;
using ddprun::summary_of;
using ddprun::WorkerExited;

namespace {

const PreflightReport kSound{.device = "CPU", .memory_bytes_per_second = 5e9};
const PreflightReport kBroken{.device = "CUDA device 1", .problem = "its memory forgets"};

/// "0: , 1: its memory forgets".
std::string problems(const std::vector<DeviceExamined>& devices) {
  std::string text;
  for (const auto& device : devices) {
    text += (text.empty() ? "" : ", ") + std::to_string(device.local_rank) + ": " +
            device.report.problem;
  }
  return text;
}

}  // namespace

TEST_SUITE("preflight verdict") {
  TEST_CASE("preflight result: a worker is judged by its report or by its exit without one") {
    const WorkerExited good{.rank = 0};
    const WorkerExited crashed{.rank = 1, .local_rank = 1, .pid = 7, .signal = SIGSEGV};
    const WorkerExited stopped{.rank = 1, .signal = SIGTERM, .was_stopped = true};
    const WorkerExited failed{.rank = 1,
                              .pid = 7,
                              .exit_code = 1,
                              .error_message = "no store",
                              .last_lines = {"first", "last"}};
    WorkerExited silent = failed;
    silent.error_message.clear();
    struct Case {
      const char* name;
      WorkerExited second;
      std::optional<PreflightReport> report;
      bool is_over_time;
      std::string problems;
      std::string objection;
    };
    const Case cases[] = {
        {"all is well", {.rank = 1}, kSound, false, "0: , 1: ", ""},
        {"a device is broken",
         {.rank = 1},
         kBroken,
         false,
         "0: , 1: its memory forgets",
         "preflight: local rank 1, CUDA device 1: its memory forgets"},
        {"a driver crashed",
         crashed,
         {},
         false,
         "0: , 1: rank 1 (pid 7) was killed by SIGSEGV",
         "preflight: local rank 1: rank 1 (pid 7) was killed by SIGSEGV"},
        {"it reported the reason of its failure",
         failed,
         {},
         false,
         "0: , 1: rank 1 (pid 7) failed with exit code 1: no store",
         "preflight: local rank 1: rank 1 (pid 7) failed with exit code 1: no store"},
        {"it did not",
         silent,
         {},
         false,
         "0: , 1: rank 1 (pid 7) failed with exit code 1: last",
         "preflight: local rank 1: rank 1 (pid 7) failed with exit code 1: last"},
        {"it hangs",
         stopped,
         {},
         true,
         "0: , 1: it has not answered within 9 s",
         "preflight: local rank 1: it has not answered within 9 s"},
        {"it was stopped because of another",
         stopped,
         {},
         false,
         "0: ",
         "preflight: not all workers have reported"},
        {"it succeeded without a report",
         {.rank = 1},
         {},
         false,
         "0: ",
         "preflight: not all workers have reported"},
    };
    for (const auto& test : cases) {
      CAPTURE(test.name);
      const auto devices = judge_devices({.exits = {test.second, good},
                                          .reports = {kSound, test.report},
                                          .is_over_time = test.is_over_time,
                                          .limit = std::chrono::seconds(9)});
      CHECK(problems(devices) == test.problems);
      CHECK(objection_to_start(devices, 2).value_or("") == test.objection);
    }
  }

  TEST_CASE("preflight result: victims are named only if no other worker has failed") {
    const std::string error = "ddprun::PeerFailed: rank 1 has left";
    const WorkerExited victim{.exit_code = 1, .error_message = error};
    const WorkerExited culprit{.rank = 1, .pid = 7, .signal = SIGSEGV};
    const WorkerExited other{.rank = 1, .exit_code = 1, .error_message = error};
    CHECK(problems(judge_devices({.exits = {victim, culprit}, .reports = {{}, {}}})) ==
          "1: rank 1 (pid 7) was killed by SIGSEGV");
    CHECK(judge_devices({.exits = {victim, other}, .reports = {{}, {}}}).size() == 2);
  }

  TEST_CASE("preflight result: the first bad device is named and the others counted") {
    const std::vector<DeviceExamined> devices = {{0, kSound}, {1, kBroken}, {2, kBroken}};
    CHECK(objection_to_start(devices, 3) ==
          "preflight: local rank 1, CUDA device 1: its memory forgets (and 1 more)");
  }

  TEST_CASE("preflight result: the summary contains the lowest measurements") {
    PreflightReport faster = kSound;
    faster.memory_bytes_per_second = 7e9;
    faster.product_flops = 2e9;
    CHECK(summary_of({{0, faster}, {1, kSound}}) == "2 x CPU passed (at least: memory 5 GB/s)");
    CHECK(summary_of({{0, faster}}) ==
          "CPU passed (at least: memory 7 GB/s, matrix product 2 GFLOP/s)");
    faster.device = "CUDA device 1";
    CHECK(summary_of({{0, kSound}, {1, faster}}) ==
          "CPU, CUDA device 1 passed (at least: memory 5 GB/s)");
    CHECK(summary_of({}).empty());
  }
}

}  // namespace preflight_verdict_test
