// --preflight: the real check of this machine's CPUs, and the effects of problems, which a program
// in place of ddprun-preflight reports.
#include "tests/support/json_lines.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/other_preflight.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace preflight_test {

using ddprun::test::contains;
using ddprun::test::count;
using ddprun::test::in_bin;
using ddprun::test::launch;
using ddprun::test::OtherPreflight;
using ddprun::test::Program;
using ddprun::test::read_json_lines;
using ddprun::test::run_program;
using ddprun::test::TemporaryFolder;
using ddprun::test::write_file;

namespace {

constexpr const char* kSound = "printf 'device CPU\\nmemory 2e9\\nend\\n' > $1\n";

}  // namespace

TEST_SUITE("preflight") {
  TEST_CASE("preflight: workers start after a successful check") {
    const TemporaryFolder folder;
    const auto events = folder / "events.jsonl";
    const auto result = run_program(
        launch({"--preflight", "--nproc_per_node=3", "--events", events}, "echo works"));
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "preflight of 3 workers\n"));
    CHECK(contains(result.output, "preflight: 3 x CPU passed (at least: memory "));
    CHECK(count(result.output, "works\n") == 3);
    std::vector<std::string> names;
    for (const auto& event : read_json_lines(events)) {
      names.push_back(event["event"]);
      if (names.back() != "device_examined") continue;
      CHECK(event["problem"] == "");
      CHECK(event["device"] == "CPU");
      for (const char* figure : {"memory_bytes_per_second", "product_flops",
                                 "exchange_bytes_per_second", "all_reduce_bytes_per_second"})
        CHECK(event[figure].get<double>() > 0);
    }
    const std::vector<std::string> first(names.begin(), names.begin() + 6);
    CHECK(first == std::vector<std::string>{"preflight_started", "device_examined",
                                            "device_examined", "device_examined", "preflight_ended",
                                            "run_started"});
  }

  TEST_CASE("preflight: a bad device is named in the error and no worker starts") {
    const OtherPreflight other(
        std::string("[ $RANK = 1 ] || { ") + kSound + "exit; }\n" +
        "printf 'device CUDA device 1 (no. 7)\\nproblem it forgets\\nend\\n' "
        "> $1\n");
    const auto result =
        run_program(launch({"--preflight", "--nproc_per_node=3"}, "echo works", other.ddprun()));
    CHECK(result.exit_code == 3);
    CHECK_FALSE(contains(result.output, "works"));
    CHECK(contains(result.output,
                   "error   node 0: preflight: local rank 1, CUDA device 1 (no. 7): it forgets\n"));
    CHECK(contains(result.output,
                   "no worker was started, exit code 3: preflight: local rank 1, CUDA device 1 "
                   "(no. 7): it forgets\n"));
  }

  TEST_CASE("preflight: a crash of the check program counts as a failed check") {
    const OtherPreflight other(std::string("[ $RANK = 0 ] && exec sleep 60\n") +
                               "echo the driver is of another version >&2; exit 9\n");
    const auto result =
        run_program(launch({"--preflight", "--nproc_per_node=2"}, "echo works", other.ddprun()));
    CHECK(result.exit_code == 3);
    CHECK(contains(result.output, "preflight: local rank 1: rank 1 (pid "));
    CHECK(contains(result.output, "failed with exit code 9: the driver is of another version\n"));
    CHECK_FALSE(contains(result.output, "works"));
  }

  TEST_CASE("preflight: a suspicious result causes a warning and the run continues") {
    const OtherPreflight other("printf 'device CPU\\nremark it is slow\\nend\\n' > $1\n");
    const auto result = run_program(launch({"--preflight"}, "echo works", other.ddprun()));
    CHECK(result.exit_code == 0);
    CHECK(contains(result.output, "warning node 0: preflight: local rank 0, CPU: it is slow\n"));
    CHECK(contains(result.output, "works\n"));
  }

  TEST_CASE("preflight: an interrupted check leaves no process") {
    const OtherPreflight other("echo looks >&2; echo looks > $1; exec sleep 60\n");
    const TemporaryFolder logs;
    Program program(
        launch({"--preflight", "--log_dir", logs.path()}, "echo works", other.ddprun()));
    CHECK(program.read_until_contains("preflight of 1 worker\n"));
    program.signal(SIGINT);
    CHECK(program.wait() == 130);
    CHECK(contains(program.output(), "interrupted by SIGINT"));
    CHECK_FALSE(contains(program.output(), "works"));
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("preflight: a missing check program is reported before any start") {
    const TemporaryFolder folder;
    std::filesystem::copy_file(in_bin("ddprun"), folder / "ddprun");
    const auto result = run_program(launch({"--preflight"}, "echo works", folder / "ddprun"));
    CHECK(result.exit_code == 2);
    CHECK(contains(result.output, "--preflight: ddprun-preflight, which comes with ddprun, is"));
  }
}

}  // namespace preflight_test
