// Stacks of real processes, captured by real tools if available.
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/runtime_stacks.hpp"
#include "launcher/process/tool_runner.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/trace_target.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stacks_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace fs = std::filesystem;

TEST_SUITE("stacks of workers") {
  TEST_CASE("stacks: a worker with the runtime yields function names of all threads") {
    TraceTarget target({.when = StacksWhen::never});
    target.start_stuck("runtime");
    target.take_stacks();
    const auto descriptors = open_descriptors();
    const auto taken = target.take_stacks();
    INFO(text_of(taken));
    CHECK(taken.means == std::vector<std::string>{"the worker runtime"});
    CHECK(taken.problems.empty());
    CHECK(contains(text_of(taken), "wait_in_first_thread("));
    CHECK(contains(text_of(taken), "wait_in_second_thread("));
    CHECK(taken.reason == "for a test");
    CHECK(is_alive(target.pid));
    CHECK(target.bench.history().exited.empty());
    CHECK(open_descriptors() == descriptors);
    CHECK_FALSE(fs::exists(target.bench.folder() / control::kStackPipe));
    std::ifstream file(taken.file);
    const std::string kept{std::istreambuf_iterator<char>(file), {}};
    CHECK(contains(kept, "==== rank 0 (pid " + std::to_string(target.pid) + ") at "));
    CHECK(kept.rfind("wait_in_first_thread(") != kept.find("wait_in_first_thread("));
  }

  TEST_CASE("stacks: stacks have no function names if the symbol reader exceeds its deadline") {
    const TemporaryFolder folder;
    const auto make_reader = [&](const std::string& script) {
      return make_tool(folder.path(), script);
    };
    StackPlan plan{.when = StacksWhen::never,
                   .symbol_reader = make_reader("printf 'Thread limit: %s\\n\\0' $(ulimit -Ht)"),
                   .limits = kLongLimits};
    {
      TraceTarget target(plan);
      target.start_stuck("runtime");
      CHECK(contains(text_of(target.take_stacks()), "Thread limit: 10"));
    }
    // Like on a file system that hangs.
    plan.symbol_reader = make_reader("sleep 1000");
    plan.limits = {.tool = 2s, .together = 50s};
    {
      TraceTarget target(plan);
      target.start_stuck("runtime");
      const auto taken = target.take_stacks();
      INFO(text_of(taken));
      CHECK(taken.means == std::vector<std::string>{"the worker runtime"});
      REQUIRE(taken.problems.size() == 1);
      CHECK(contains(taken.problems[0], "no names of functions: it was not done in time"));
      CHECK(contains(text_of(taken), "?? + 0x"));
      CHECK(contains(text_of(taken), " in stuck_worker\n"));
    }
    plan.symbol_reader = make_reader("echo 'terminate called'");
    TraceTarget target(plan);
    target.start_stuck("runtime");
    const auto taken = target.take_stacks();
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "no names of functions: the symbol reader failed"));
    CHECK(contains(text_of(taken), " in stuck_worker\n"));
  }

  TEST_CASE("stacks: the number of captured threads is limited") {
    TraceTarget target({.when = StacksWhen::never});
    target.start_stuck("runtime", static_cast<int>(kStackThreadsMax) + 20);
    const auto taken = target.take_stacks();
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "threads did not answer"));
    CHECK(contains(taken.lines.back(), "more lines"));
  }

  TEST_CASE("stacks: a program without the runtime is captured by gdb and continues") {
    if (!fs::exists(kGdb)) {
      MESSAGE("there is no gdb here");
      return;
    }
    for (const auto mode : {ContainmentMode::automatic, ContainmentMode::marker}) {
      TraceTarget target({.when = StacksWhen::never, .gdb = kGdb, .limits = kLongLimits}, mode);
      target.start_stuck("plain");
      const auto taken = target.take_stacks();
      INFO(text_of(taken));
      if (contains(text_of(taken), "not permitted")) return;
      CHECK(taken.means == std::vector<std::string>{"gdb"});
      CHECK(contains(text_of(taken), "wait_in_first_thread"));
      CHECK(contains(text_of(taken), "wait_in_second_thread"));
      CHECK(process_state(target.pid).letter == 'S');
    }
  }

  TEST_CASE("stacks: the kernel's data is reported if tracing is not permitted") {
    if (!fs::exists(kGdb)) return;
    TraceTarget target({.when = StacksWhen::never, .gdb = kGdb, .limits = kLongLimits});
    target.start_stuck("plain");
    // A process has at most one tracer.
    if (::ptrace(PTRACE_SEIZE, target.pid, nullptr, nullptr) != 0) return;
    const auto taken = target.take_stacks();
    INFO(text_of(taken));
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "not permitted"));
    CHECK(taken.means == std::vector<std::string>{"the kernel"});
    CHECK(contains(text_of(taken), "state S"));
    CHECK(taken.lines.size() == 2);
  }

  TEST_CASE("stacks: a program executed by a worker with the runtime gets no signal") {
    TraceTarget target({.when = StacksWhen::never});
    target.start({DDPRUN_BIN_DIR "/probe_worker", "become-sleep", target.ready()});
    target.bench.run_until([&] { return executable_name(target.pid) == "sleep"; });
    const auto taken = target.take_stacks();
    CHECK(taken.means == std::vector<std::string>{"the kernel"});
    CHECK(is_alive(target.pid));
  }

  TEST_CASE("stacks: a worker that stops in time is not captured") {
    TraceTarget target({.when = StacksWhen::kill, .gdb = kGdb, .limits = kLongLimits});
    target.start({"/bin/sh", "-c", "echo >" + target.ready() + "; sleep 1000"});
    target.bench.group().stop(SIGTERM, 20s);
    target.bench.run_to_end();
    CHECK(target.bench.history().stacks.empty());
  }

  TEST_CASE("stacks: SIGKILL is not delayed by a running tool") {
    for (const auto mode : {ContainmentMode::automatic, ContainmentMode::marker}) {
      const TemporaryFolder folder;
      TraceTarget target({.when = StacksWhen::kill,
                          .gdb = make_tool(folder.path(), "touch $0.up; sleep 1000"),
                          .limits = {.tool = 1000s, .together = 1000s}},
                         mode);
      target.start_stuck("plain");
      target.bench.group().stop(SIGTERM, 10ms);
      target.bench.run_until([&] { return fs::exists(folder.path() / "tool.up"); });
      CHECK(target.bench.history().exited.empty());
      target.bench.group().stop(SIGKILL, 0ms);
      target.bench.run_to_end();
      CHECK(target.bench.history().exit_of(0).signal == SIGKILL);
      CHECK(target.bench.history().stacks.empty());
      target.bench.sweep();
      CHECK(target.bench.containment().members().empty());
    }
  }

  TEST_CASE("stacks: a tool that hangs is killed and its output is limited") {
    const TemporaryFolder folder;
    TraceTarget target(
        {.when = StacksWhen::never,
         .gdb = make_tool(folder.path(), "echo Thread 1; while :; do echo '#0 here'; done"),
         .limits = {.tool = 3s, .together = 4s}});
    target.start_stuck("plain");
    const auto taken = target.take_stacks();
    CHECK(taken.means == std::vector<std::string>{"gdb"});
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "not done in time"));
    CHECK(taken.lines.size() < 100);
    const auto bytes = fs::file_size(taken.file);
    CHECK(bytes > (200U << 10));
    CHECK(bytes < (300U << 10));
    CHECK(is_alive(target.pid));
  }

  TEST_CASE("stacks: a tool has the worker's user and resource limits and a clean environment") {
    if (::geteuid() != 0 || !fs::exists("/usr/bin/setpriv")) {
      MESSAGE("only root can start a worker of another user, by setpriv");
      return;
    }
    const TemporaryFolder folder;
    for (const auto& path : {folder.path(), folder.path().parent_path()}) {
      fs::permissions(path, fs::perms::others_exec, fs::perm_options::add);
    }
    const auto tool = make_tool(folder.path(),
                                "echo Thread 1; echo \"#0 $(id -u) $(id -g) $(id -G) "
                                "$(ulimit -Hd) $(ulimit -Ht) ${DDPRUN_TEST_SECRET-unset} "
                                "${LC_ALL-unset} ${DDPRUN_MARKER:+marked}\"; command -v id");
    ::setenv("DDPRUN_TEST_SECRET", "of root's agent", 1);
    for (const auto& gdb : {tool, std::string(kGdb)}) {
      if (!fs::exists(gdb)) continue;
      TraceTarget target({.when = StacksWhen::never, .gdb = gdb, .limits = kLongLimits});
      target.start({"/bin/sh", "-c",
                    "exec 3>\"$1\"; exec setpriv --reuid=65534 --regid=65533 --clear-groups "
                    "sh -c 'echo up >&3; exec sleep 1000'",
                    "sh", target.ready()});
      target.bench.run_until([&] { return executable_name(target.pid) == "sleep"; });
      const auto text = text_of(target.take_stacks());
      INFO(text);
      if (contains(text, "not permitted")) continue;  // processes may not inspect others here
      CHECK(contains(text,
                     gdb == tool ? "#0 65534 65533 65533 8388608 300 unset C marked\n/" : "sleep"));
    }
    ::unsetenv("DDPRUN_TEST_SECRET");
  }

  TEST_CASE("stacks: the number of concurrent tools is limited") {
    constexpr auto kWorkers = ToolRunner::kToolsMax + 4;
    const TemporaryFolder folder;
    const auto tool = make_tool(folder.path(),
                                "cd $(dirname $0); mkdir at_work.$$; ls -d at_work.* | wc -l "
                                ">>counts; sleep 0.1; rmdir at_work.$$; echo Thread; echo '#0'");
    WorkerBench bench(static_cast<int>(kWorkers), ContainmentMode::automatic,
                      {.when = StacksWhen::never, .gdb = tool});
    std::vector<WorkerSpec> specs;
    for (int i = 0; specs.size() < kWorkers; ++i) specs.push_back(shell_worker(i, "sleep 1000"));
    bench.start(specs);
    bench.group().take_stacks("for a test");
    bench.run_until([&] { return bench.history().stacks.size() == kWorkers; });
    std::ifstream counts(folder.path() / "counts");
    std::size_t most = 0;
    for (std::size_t count = 0; counts >> count;) most = std::max(most, count);
    CHECK(most > 0);
    CHECK(most <= ToolRunner::kToolsMax);
  }

  TEST_CASE("stacks: a delayed tool does not inspect another process than the selected one") {
    const TemporaryFolder folder;
    const auto tool = make_tool(folder.path(),
                                "cd $(dirname $0); echo \"$*\" >>calls; while [ ! -e go ]; do "
                                "sleep 0.05; done; echo Thread; echo '#0'");
    const auto calls = [&] {
      std::ifstream file(folder.path() / "calls");
      std::vector<std::string> lines;
      for (std::string line; std::getline(file, line);) lines.push_back(line + " ");
      return lines;
    };
    const auto calls_for = [&](pid_t pid) {
      const auto is_for = [&](const auto& call) {
        return contains(call, " " + std::to_string(pid) + " ");
      };
      const auto all = calls();
      return std::count_if(all.begin(), all.end(), is_for);
    };
    constexpr auto kOthers = ToolRunner::kToolsMax;
    WorkerBench bench(static_cast<int>(kOthers) + 2, ContainmentMode::automatic,
                      {.when = StacksWhen::never, .gdb = tool, .limits = kLongLimits});
    std::vector<WorkerSpec> specs;
    for (int i = 0; specs.size() < kOthers; ++i)
      specs.push_back(shell_worker(i, "exec sleep 1000"));
    specs.push_back(shell_worker(kOthers, "sleep 1000; sleep 1000; exit"));
    const auto fifo = (folder.path() / "fifo").string();
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const UniqueFd writer(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));
    specs.push_back(shell_worker(kOthers + 1, "read line <" + fifo + "; sleep 1000; exit"));
    const auto started = bench.start(specs);
    const pid_t wrapper = started[kOthers].pid;
    const pid_t parent = started[kOthers + 1].pid;
    const auto child_of = [](pid_t pid) {
      const auto children = children_of(pid);
      return children.size() == 1 ? children.front() : -1;
    };
    bench.run_until([&] { return executable_name(child_of(wrapper)) == "sleep"; });
    const pid_t former = child_of(wrapper);
    bench.group().take_stacks("for a test");
    bench.run_until([&] { return calls().size() == kOthers; });
    REQUIRE(calls_for(wrapper) + calls_for(former) + calls_for(parent) == 0);
    ::kill(former, SIGKILL);
    REQUIRE(::write(writer.get(), "\n", 1) == 1);
    bench.run_until([&] { return child_of(wrapper) != former && child_of(parent) > 0; });
    std::ofstream(folder.path() / "go") << "";
    bench.run_until([&] { return bench.history().stacks.size() == kOthers + 1; });
    CHECK(calls_for(parent) == 1);
    // The next capture begins after the end of the first.
    bench.group().take_stacks("for a test");
    bench.run_until([&] { return bench.history().stacks.size() == 2 * kOthers + 3; });
    CHECK(calls_for(former) == 0);
    CHECK(calls_for(child_of(wrapper)) == 1);
  }

  TEST_CASE("stacks: the kernel's data is reported if no tool is installed") {
    TraceTarget target({.when = StacksWhen::kill});
    target.start_stuck("plain");
    target.bench.group().stop(SIGTERM, 10ms);
    target.bench.run_to_end();
    REQUIRE(target.bench.history().stacks.size() == 1);
    CHECK(target.bench.history().stacks[0].lines.size() == 2);
    CHECK(target.bench.history().killed.size() == 1);
  }

  TEST_CASE("stacks: the attempt is aborted only after its stacks have been captured") {
    TraceTarget target({.when = StacksWhen::stop});
    auto page = control::ControlPage::attach(::dup(target.bench.control_page_fd()), 0);
    target.start_stuck("plain");
    target.bench.group().abort(1, "rank 1 is dying");
    target.bench.group().stop(SIGTERM, 10ms);
    CHECK_FALSE(page.is_aborted());
    target.bench.run_until([&] { return !target.bench.history().stacks.empty(); });
    target.bench.run_to_end();
    CHECK(page.is_aborted());
    CHECK(target.bench.history().stacks.size() == 2);  // before the signal and before the kill
  }
}

}  // namespace stacks_test
