// Stacks of Python workers, captured by real tools if available.
#include "launcher/process/proc_scan.hpp"
#include "tests/support/trace_target.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

namespace python_stacks_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

/// A gdb that hides the function that prints frames, which Python 3.13 does not export.
std::string make_gdb_of_python_3_13(const fs::path& folder) {
  return make_tool(folder,
                   "for argument do\n"
                   "  shift\n"
                   "  set -- \"$@\" \"$(printf %s \"$argument\" |"
                   " sed s/_Py_DumpTracebackThreads/not_exported/)\"\n"
                   "done\n"
                   "exec " +
                       std::string(kGdb) + " \"$@\"");
}

/// Returns whether gdb may and can call functions here.
bool gdb_can_call(const StacksTaken& taken) {
  return !contains(text_of(taken), "not permitted") &&
         !contains(text_of(taken), "too old for the processor");
}

}  // namespace

TEST_SUITE("stacks of Python workers") {
  TEST_CASE("Python stacks: a process that blocks in C prints frames before SIGKILL") {
    TraceTarget target({.when = StacksWhen::kill});
    target.start_python();
    target.bench.group().stop(SIGTERM, 100ms);
    target.bench.run_to_end();
    REQUIRE(target.bench.history().stacks.size() == 1);
    const auto& taken = target.bench.history().stacks[0];
    INFO(text_of(taken));
    CHECK(taken.means == std::vector<std::string>{"faulthandler"});
    CHECK(taken.was_ended);
    CHECK(contains(text_of(taken), "in wait_in_c"));
    CHECK(contains(target.bench.console(), "in wait_in_c"));
    const auto& exit = target.bench.history().exit_of(0);
    CHECK(exit.signal == SIGABRT);
    CHECK(exit.was_stopped);
    CHECK_FALSE(exit.core_file);
  }

  TEST_CASE("Python stacks: printing frames through gdb does not affect the process") {
    if (!fs::exists(kGdb)) return;
    for (const bool by_shell : {false, true}) {
      CAPTURE(by_shell);
      TraceTarget target({.when = StacksWhen::kill, .gdb = kGdb, .limits = kLongLimits});
      by_shell ? target.start_python_by_shell() : target.start_python();
      target.take_stacks();
      const auto descriptors = open_descriptors();
      const auto taken = target.take_stacks();
      INFO(text_of(taken));
      if (contains(text_of(taken), "not permitted")) return;
      CHECK_FALSE(taken.was_ended);
      CHECK(open_descriptors() == descriptors);
      CHECK(process_state(target.pid).letter == 'S');
      CHECK_FALSE(contains(target.bench.console(), "woken"));
      if (contains(text_of(taken), "too old for the processor")) {
        CHECK(taken.means == std::vector<std::string>{"gdb"});
        CHECK(contains(text_of(taken), "py-spy"));
        MESSAGE("this machine's gdb cannot call functions on this machine's processor");
        continue;
      }
      CHECK(taken.means == std::vector<std::string>{"Python under gdb"});
      CHECK(taken.problems.empty());
      CHECK(contains(text_of(taken), "in wait_in_c"));
      CHECK(contains(text_of(taken), "in wait_in_thread"));
      CHECK_FALSE(contains(target.bench.console(), "wait_in_c"));
    }
  }

  TEST_CASE("Python stacks: a process of another user prints frames through gdb") {
    if (!fs::exists(kGdb)) return;
    if (::geteuid() != 0 || !fs::exists("/usr/bin/setpriv")) {
      MESSAGE("only root can start a worker of another user, by setpriv");
      return;
    }
    TraceTarget target({.when = StacksWhen::never, .gdb = kGdb, .limits = kLongLimits});
    // The folder of the run belongs to root.
    target.start({"/bin/sh", "-c",
                  "umask 0; exec 3>\"$1\"; exec setpriv --reuid=65534 --regid=65533 --clear-groups "
                  "\"$2\" -c \"$3\" /proc/self/fd/3",
                  "sh", target.ready(), kPython, kPythonScript});
    const auto taken = target.take_stacks();
    INFO(text_of(taken));
    if (!gdb_can_call(taken)) return;
    CHECK(taken.means == std::vector<std::string>{"Python under gdb"});
    CHECK(contains(text_of(taken), "in wait_in_thread"));
    CHECK(process_state(target.pid).letter == 'S');
  }

  TEST_CASE("Python stacks: faulthandler prints the frames if Python exports no functions") {
    if (!fs::exists(kGdb)) return;
    const TemporaryFolder folder;
    TraceTarget target({.when = StacksWhen::kill,
                        .gdb = make_gdb_of_python_3_13(folder.path()),
                        .limits = kLongLimits});
    target.start_python();
    for (int i = 0; i < 2; ++i) {
      const auto taken = target.take_stacks();
      INFO(text_of(taken));
      if (!gdb_can_call(taken)) return;
      CHECK(taken.means == std::vector<std::string>{"Python under gdb"});
      CHECK(contains(text_of(taken), "in wait_in_c"));
      CHECK(contains(text_of(taken), "in wait_in_thread"));
      CHECK(process_state(target.pid).letter == 'S');
      CHECK_FALSE(contains(target.bench.console(), "wait_in_c"));
    }
  }

  TEST_CASE("Python stacks: a disabled faulthandler is reported") {
    if (!fs::exists(kGdb)) return;
    const TemporaryFolder folder;
    TraceTarget target({.when = StacksWhen::never,
                        .gdb = make_gdb_of_python_3_13(folder.path()),
                        .limits = kLongLimits});
    target.start({kPython, "-c",
                  std::string("import faulthandler\nfaulthandler.disable()\n") + kPythonScript,
                  target.ready()});
    const auto taken = target.take_stacks();
    INFO(text_of(taken));
    if (!gdb_can_call(taken)) return;
    REQUIRE_FALSE(taken.problems.empty());
    CHECK(contains(taken.problems[0], "its faulthandler is not enabled (PYTHONFAULTHANDLER=1)"));
  }

  TEST_CASE("Python stacks: missing Python frames are reported with a remedy") {
    TraceTarget target({.when = StacksWhen::never});
    target.start_python();
    const auto taken = target.take_stacks();
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "pip install py-spy"));
  }

  TEST_CASE("Python stacks: the signal is sent to Python instead of its parent shell") {
    TraceTarget target({.when = StacksWhen::kill});
    target.start_python_by_shell();
    target.bench.group().stop(SIGTERM, 100ms);
    target.bench.run_to_end();
    REQUIRE(target.bench.history().stacks.size() == 1);
    CHECK(contains(text_of(target.bench.history().stacks[0]), "in wait_in_c"));
    CHECK(target.bench.history().exit_of(0).was_stopped);
  }

  TEST_CASE("Python stacks: a request does not end a running process") {
    TraceTarget target({.when = StacksWhen::kill});
    target.start_python();
    const auto taken = target.take_stacks();
    CHECK(taken.means == std::vector<std::string>{"the kernel"});
    CHECK(is_alive(target.pid));
  }

  TEST_CASE("Python stacks: a process that SIGTERM would end prints frames instead") {
    TraceTarget target({.when = StacksWhen::stop});
    target.start({kPython, "-c",
                  "import sys, time\n"
                  "print('up', file=open(sys.argv[1], 'w'), flush=True)\n"
                  "time.sleep(1000)\n",
                  target.ready()});
    target.bench.group().stop(SIGTERM, 20s);
    target.bench.run_to_end();
    REQUIRE(target.bench.history().stacks.size() == 1);
    CHECK(contains(text_of(target.bench.history().stacks[0]), "in <module>"));
    CHECK(target.bench.history().exit_of(0).was_stopped);
    CHECK(target.bench.history().killed.empty());
  }
}

}  // namespace python_stacks_test
