// Repeated requests for stacks, by many workers, and just before the end of a run.
#include "launcher/process/tool_runner.hpp"
#include "tests/support/worker_bench.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

namespace stack_requests_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

/// A program in place of a debugger.
std::string make_tool(const fs::path& folder, const std::string& script) {
  const auto path = folder / "tool";
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  ::chmod(path.c_str(), 0755);
  return path;
}

/// For tests that use up their descriptors.
constexpr StackLimits kShortLimits{.tool = 3s, .together = 4s};

/// A tool that records each start and prints a stack only when it is asked to end.
std::string make_slow_tool(const fs::path& folder) {
  return make_tool(folder,
                   "trap 'echo Thread 1; echo \"#0 here\"; exit' TERM\n"
                   "echo start >>$0.starts\n"
                   "sleep 1000 & wait");
}

std::ptrdiff_t starts_of(const std::string& tool) {
  std::ifstream file(tool + ".starts");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::count(text.begin(), text.end(), '\n');
}

std::vector<WorkerSpec> sleepers(int count, const std::string& script = "sleep 1000") {
  std::vector<WorkerSpec> specs;
  for (int i = 0; i < count; ++i) specs.push_back(shell_worker(i, script));
  return specs;
}

}  // namespace

TEST_SUITE("requests for stacks") {
  TEST_CASE("stack requests: a stop does not wait for earlier requests") {
    for (const auto when : {StacksWhen::stop, StacksWhen::kill}) {
      const TemporaryFolder folder;
      const auto tool = make_slow_tool(folder.path());
      WorkerBench bench(1, ContainmentMode::automatic,
                        {.when = when, .gdb = tool, .limits = kShortLimits});
      bench.start(sleepers(1, "trap '' TERM; echo >" + (folder / "up") + "; sleep 1000"));
      await_line(folder / "up");
      for (int i = 0; i < 8; ++i) bench.group().take_stacks("for a test");
      bench.run_until([&] { return starts_of(tool) == 1; });
      bench.group().stop(SIGTERM, 10ms);
      bench.run_to_end();
      const auto& stacks = bench.history().stacks;
      // Output of an interrupted tool counts, and the signal is sent right after its capture.
      const std::size_t last = when == StacksWhen::stop ? 2 : 1;
      REQUIRE(stacks.size() == 1 + last);
      CHECK(stacks[0].reason == "for a test");
      CHECK(stacks[0].lines == std::vector<std::string>{"Thread 1", "#0 here"});
      CHECK(stacks[1].reason != "for a test");
      CHECK(starts_of(tool) == static_cast<std::ptrdiff_t>(1 + last));
      CHECK(bench.history().killed.size() == 1);
    }
  }

  TEST_CASE("stack requests: a stop interrupts a capture that has just begun") {
    const TemporaryFolder folder;
    const auto tool = make_slow_tool(folder.path());
    WorkerBench bench(1, ContainmentMode::automatic,
                      {.when = StacksWhen::stop, .gdb = tool, .limits = kShortLimits});
    bench.start(sleepers(1));
    bench.group().take_stacks("for a test");
    bench.group().stop(SIGTERM, 20s);
    bench.run_to_end();
    REQUIRE(bench.history().stacks.size() == 1);
    CHECK(bench.history().stacks[0].reason == "before they are asked to stop");
    CHECK(starts_of(tool) == 1);
  }

  TEST_CASE("stack requests: requests during a capture cause one further capture") {
    const TemporaryFolder folder;
    const auto tool = make_tool(folder.path(),
                                "echo start >>$0.starts; until test -e $0.go; do sleep 0.01; done; "
                                "echo Thread 1; echo '#0 here'");
    WorkerBench bench(1, ContainmentMode::automatic, {.when = StacksWhen::never, .gdb = tool});
    bench.start(sleepers(1));
    for (int i = 0; i < 100; ++i) bench.group().take_stacks("for a test");
    bench.run_until([&] { return starts_of(tool) == 1; });
    std::ofstream(tool + ".go");
    bench.run_until([&] { return bench.history().stacks.size() == 2; });
    bench.group().stop(SIGTERM, 20s);
    bench.run_to_end();
    CHECK(bench.history().stacks.size() == 2);
    CHECK(starts_of(tool) == 2);
  }

  TEST_CASE("stack requests: the agent uses no CPU time while workers wait for a tool slot") {
    constexpr int kWorkers = static_cast<int>(ToolRunner::kToolsMax) + 4;
    const TemporaryFolder folder;
    const auto tool = make_slow_tool(folder.path());
    WorkerBench bench(kWorkers, ContainmentMode::automatic,
                      {.when = StacksWhen::never, .gdb = tool, .limits = kShortLimits});
    bench.start(sleepers(kWorkers));
    bench.group().take_stacks("for a test");
    int steps = 0;
    bench.run_until([&] {
      ++steps;
      return bench.history().stacks.size() == kWorkers;
    });
    // A few per worker and twenty per second; an agent that is not idle has hundreds of thousands.
    CHECK(steps < 3000);
  }

  TEST_CASE("stack requests: a Python process that ends without a stack is reported") {
    const TemporaryFolder folder;
    WorkerBench bench(1, ContainmentMode::automatic, {.when = StacksWhen::kill});
    WorkerSpec spec = shell_worker(0, "");
    spec.arguments = {"/usr/bin/python3", "-c",
                      "import faulthandler, signal, sys, time\n"
                      "faulthandler.enable(open('/dev/null', 'w'))\n"
                      "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                      "print('up', file=open(sys.argv[1], 'w'), flush=True)\n"
                      "time.sleep(1000)\n",
                      folder / "up"};
    bench.start({spec});
    await_line(folder / "up");
    bench.group().stop(SIGTERM, 10ms);
    bench.run_to_end();
    CHECK(bench.history().exit_of(0).signal == SIGABRT);
    REQUIRE(bench.history().stacks.size() == 1);
    const auto& taken = bench.history().stacks[0];
    CHECK(taken.means.empty());
    CHECK(taken.was_ended);
    CHECK(taken.lines.empty());
    REQUIRE_FALSE(taken.problems.empty());
    CHECK(taken.problems[0] == "faulthandler: Python printed nothing");
  }
}

}  // namespace stack_requests_test
