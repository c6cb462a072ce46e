// Stack captures of a job that hangs, by the real launcher.
#include "tests/support/json_lines.hpp"
#include "tests/support/program.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace stacks_test {

using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::read_file;
using ddprun::test::read_json_lines;
using ddprun::test::run_program;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;
using ddprun::test::write_file;

namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Hangs in a C function, where Python does not run its handlers.
constexpr const char* kHangingScript = R"(import ctypes
import signal

def hang_in_c():
    print("up", flush=True)
    while True:
        ctypes.CDLL(None).pause()

signal.signal(signal.SIGTERM, lambda *_: None)
hang_in_c()
)";

std::string all_stacks(const fs::path& folder) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == "stacks.txt") text += read_file(entry.path());
  }
  return text;
}

}  // namespace

TEST_SUITE("stacks of a run") {
  TEST_CASE("stacks: stacks of Python workers that do not stop are written to the log folder") {
    const TemporaryFolder folder;
    write_file(folder / "hang.py", kHangingScript);
    Program program({in_bin("ddprun"), "--nproc_per_node=2", "--shutdown_timeout=0.5", "--log_dir",
                     folder / "logs", "--events", folder / "events", folder / "hang.py"},
                    {{"PYTHON_EXEC", "/usr/bin/python3"}});
    REQUIRE(program.read_until(
        [](std::string_view output) { return count(std::string(output), "]:up") == 2; }));
    program.signal(SIGTERM);
    CHECK(program.wait() == 128 + SIGTERM);
    INFO(program.output());
    const auto stacks = all_stacks(folder / "logs");
    CHECK(count(stacks, "hang_in_c") >= 2);
    CHECK(count(stacks, "==== rank 1 (pid ") == 1);
    int taken = 0;
    for (const auto& event : read_json_lines(folder / "events")) {
      if (event.at("event") != "stacks_taken") continue;
      taken += 1 + static_cast<int>(event.at("same").size());
      CHECK(contains(event.at("reason"), "still running"));
      CHECK(contains(program.output(), event.at("file")));
      CHECK_FALSE(event.at("lines").empty());
    }
    CHECK(taken == 2);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("stacks: a request shows the functions of a running trainer without ending it") {
    Program program({in_bin("ddprun"), "--nproc_per_node=2", in_bin("trainer"), "--epochs=100000",
                     "--dataset=random"});
    REQUIRE(program.read_until_contains("epoch 1/"));
    program.signal(SIGRTMIN);
    REQUIRE(program.read_until([](std::string_view output) {
      return count(std::string(output), "asked for by SIGRTMIN; taken by the worker runtime") == 2;
    }));
    REQUIRE(program.read_until_contains("[rank 1]: Thread "));
    CHECK(contains(program.output(), "trainer::run("));
    const auto epochs = count(program.output(), "]:epoch ");
    CHECK(program.read_until([epochs](std::string_view output) {
      return count(std::string(output), "]:epoch ") > epochs + 1;
    }));
    program.signal(SIGTERM);
    CHECK(program.wait() == 128 + SIGTERM);
    CHECK(program.leaves_no_process());
  }

  TEST_CASE("stacks: Ctrl-\\ requests stacks unless SIGQUIT is among the handled signals") {
    const TemporaryFolder folder;
    Program program({in_bin("ddprun"), "--signals_to_handle=SIGTERM,SIGINT", "--no_python",
                     in_bin("stuck_worker"), "runtime", folder / "ready"});
    REQUIRE(wait_until([&] { return !read_file(folder / "ready").empty(); }));
    program.signal(SIGQUIT);
    CHECK(program.read_until_contains("wait_in_second_thread("));
    CHECK(program.read_until_contains("wait_in_first_thread("));
    program.signal(SIGINT);
    CHECK(program.wait() == 128 + SIGINT);
  }

  TEST_CASE("stacks: --stacks=stop captures workers before they are stopped") {
    const TemporaryFolder folder;
    const auto result =
        run_program({in_bin("ddprun"), "--nproc_per_node=2", "--stacks=stop", "--log_dir",
                     folder / "logs", "--no_python", in_bin("stuck_worker"), "peer"});
    CHECK(result.exit_code == 1);
    INFO(result.output);
    CHECK(contains(result.output, "before they are asked to stop"));
    CHECK(contains(all_stacks(folder / "logs"), "run_worker("));
    CHECK(contains(result.output, "exit code 3"));
  }

  TEST_CASE("stacks: --stacks=never captures nothing") {
    const TemporaryFolder folder;
    Program program({in_bin("ddprun"), "--shutdown_timeout=0.2", "--stacks=never", "--no_python",
                     in_bin("stuck_worker"), "runtime", folder / "ready"});
    REQUIRE(wait_until([&] { return !read_file(folder / "ready").empty(); }));
    program.signal(SIGTERM);
    CHECK(program.wait() == 128 + SIGTERM);
    CHECK_FALSE(contains(program.output(), "stacks of rank"));
    CHECK(contains(program.output(), "killed rank 0"));
  }

  TEST_CASE("stacks: the stack of a crashed Python worker is reported") {
    const TemporaryFolder folder;
    write_file(folder / "crash.py",
               "import ctypes\n\ndef touch_nothing():\n    ctypes.string_at(0)\n\n"
               "touch_nothing()\n");
    const auto result =
        run_program({in_bin("ddprun"), folder / "crash.py"}, {{"PYTHON_EXEC", "/usr/bin/python3"}});
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "in touch_nothing"));
    CHECK(contains(result.output, "SIGSEGV"));
  }
}

}  // namespace stacks_test
