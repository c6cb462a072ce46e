// The stacks of real processes, by real tools where there are any.
#include "launcher/process/proc_scan.hpp"
#include "launcher/process/runtime_stacks.hpp"
#include "launcher/process/tool_runner.hpp"
#include "tests/support/worker_bench.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/ptrace.h>
#include <sys/stat.h>

namespace stacks_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

constexpr const char* kGdb = "/usr/bin/gdb";
constexpr const char* kPython = "/usr/bin/python3";

// On a new machine a debugger has to come from a slow disk first.
constexpr StackLimits kLongLimits{.tool = 50s, .together = 55s};

constexpr const char* kPythonScript =
    "import ctypes, signal, sys, threading\n"
    "def wait_in_thread():\n"
    "  threading.Event().wait()\n"
    "def wait_in_c():\n"
    "  print('up', file=open(sys.argv[1], 'w'), flush=True)\n"
    "  while ctypes.CDLL(None).pause() or True: print('woken', file=sys.stderr, flush=True)\n"
    "threading.Thread(target=wait_in_thread, daemon=True).start()\n"
    "signal.signal(signal.SIGTERM, lambda *_: None)\n"
    "wait_in_c()\n";

std::string text_of(const StacksTaken& taken) {
  std::string text;
  for (const auto& line : taken.lines) text += line + "\n";
  for (const auto& problem : taken.problems) text += "problem: " + problem + "\n";
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::ptrdiff_t open_descriptors() {
  const fs::directory_iterator folder("/proc/self/fd");
  return std::distance(begin(folder), end(folder));
}

/// A bench and its one worker.
class Patient {
 public:
  explicit Patient(const StackPlan& plan, ContainmentMode mode = ContainmentMode::automatic)
      : bench(1, mode, plan) {}

  /// Returns when the worker has said that it is ready.
  void start(std::vector<std::string> arguments) {
    WorkerSpec spec = shell_worker(0, "");
    spec.arguments = std::move(arguments);
    spec.error_file = bench.folder() / "error.json";
    spec.stacks_file = bench.folder() / "stacks.txt";
    spec.environment = {{"DDPRUN_CONTROL_FD", std::to_string(bench.control_page_fd())},
                        {"DDPRUN_CONTROL_SLOT", "0"},
                        {"TORCHELASTIC_ERROR_FILE", spec.error_file.string()},
                        {"PYTHONFAULTHANDLER", "1"},
                        {"RANK", "0"},
                        {"WORLD_SIZE", "1"},
                        {"LOCAL_RANK", "0"},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "1"}};
    pid = bench.start({spec}).front().pid;
    await_line(ready());
  }

  void start_stuck(const std::string& how, int threads = 2) {
    start({DDPRUN_BIN_DIR "/stuck_worker", how, ready(), std::to_string(threads)});
  }

  /// In a C function that never returns; SIGTERM is ignored.
  void start_python() { start({kPython, "-c", kPythonScript, ready()}); }

  /// The same, run by a shell.
  void start_python_by_shell() {
    start({"/bin/sh", "-c", "trap '' TERM; \"$@\"; exit", "sh", kPython, "-c", kPythonScript,
           ready()});
  }

  StacksTaken ask() {
    const auto before = bench.history().stacks.size();
    bench.group().take_stacks("for a test");
    bench.run_until([&] { return bench.history().stacks.size() > before; });
    return bench.history().stacks.back();
  }

  std::string ready() const { return (bench.folder() / "ready").string(); }

  WorkerBench bench;
  pid_t pid = -1;
};

/// A program that stands in for a tool.
std::string make_tool(const fs::path& folder, const std::string& script) {
  const auto path = folder / "tool";
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  ::chmod(path.c_str(), 0755);
  return path;
}

}  // namespace

TEST_SUITE("stacks of workers") {
  TEST_CASE("a worker that links the runtime names the functions of all its threads and goes on") {
    Patient patient({.when = StacksWhen::never});
    patient.start_stuck("runtime");
    patient.ask();
    const auto descriptors = open_descriptors();
    const auto taken = patient.ask();
    INFO(text_of(taken));
    CHECK(taken.means == std::vector<std::string>{"the worker runtime"});
    CHECK(taken.problems.empty());
    CHECK(contains(text_of(taken), "wait_in_first_thread("));
    CHECK(contains(text_of(taken), "wait_in_second_thread("));
    CHECK(taken.reason == "for a test");
    CHECK(is_alive(patient.pid));
    CHECK(patient.bench.history().exited.empty());
    CHECK(open_descriptors() == descriptors);
    CHECK_FALSE(fs::exists(patient.bench.folder() / control::kStackPipe));
    std::ifstream file(taken.file);
    const std::string kept{std::istreambuf_iterator<char>(file), {}};
    CHECK(contains(kept, "==== rank 0 (pid " + std::to_string(patient.pid) + ") at "));
    CHECK(kept.rfind("wait_in_first_thread(") != kept.find("wait_in_first_thread("));
  }

  TEST_CASE("of very many threads so many are asked") {
    Patient patient({.when = StacksWhen::never});
    patient.start_stuck("runtime", static_cast<int>(kThreadsAskedMax) + 20);
    const auto taken = patient.ask();
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "threads did not answer"));
    CHECK(contains(taken.lines.back(), "more lines"));
  }

  TEST_CASE("a program without the runtime is looked at by gdb, and goes on") {
    if (!fs::exists(kGdb)) {
      MESSAGE("there is no gdb here");
      return;
    }
    for (const auto mode : {ContainmentMode::automatic, ContainmentMode::marker}) {
      Patient patient({.when = StacksWhen::never, .gdb = kGdb, .limits = kLongLimits}, mode);
      patient.start_stuck("plain");
      const auto taken = patient.ask();
      INFO(text_of(taken));
      if (contains(text_of(taken), "not permitted")) return;
      CHECK(taken.means == std::vector<std::string>{"gdb"});
      CHECK(contains(text_of(taken), "wait_in_first_thread"));
      CHECK(contains(text_of(taken), "wait_in_second_thread"));
      CHECK(process_state(patient.pid).letter == 'S');
    }
  }

  TEST_CASE("where tracing is refused that is said, and the kernel is asked") {
    if (!fs::exists(kGdb)) return;
    Patient patient({.when = StacksWhen::never, .gdb = kGdb, .limits = kLongLimits});
    patient.start_stuck("plain");
    // A process has one tracer at most.
    if (::ptrace(PTRACE_SEIZE, patient.pid, nullptr, nullptr) != 0) return;
    const auto taken = patient.ask();
    INFO(text_of(taken));
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "not permitted"));
    CHECK(taken.means == std::vector<std::string>{"the kernel"});
    CHECK(contains(text_of(taken), "state S"));
    CHECK(taken.lines.size() == 2);
  }

  TEST_CASE("a program that took the place of a worker with the runtime gets no signal of ours") {
    Patient patient({.when = StacksWhen::never});
    patient.start({DDPRUN_BIN_DIR "/probe_worker", "become-sleep", patient.ready()});
    patient.bench.run_until([&] { return executable_name(patient.pid) == "sleep"; });
    const auto taken = patient.ask();
    CHECK(taken.means == std::vector<std::string>{"the kernel"});
    CHECK(is_alive(patient.pid));
  }

  TEST_CASE("Python in a C function shows its frames before it is killed, and leaves no core") {
    Patient patient({.when = StacksWhen::kill});
    patient.start_python();
    patient.bench.group().stop(SIGTERM, 100ms);
    patient.bench.run_to_end();
    REQUIRE(patient.bench.history().stacks.size() == 1);
    const auto& taken = patient.bench.history().stacks[0];
    INFO(text_of(taken));
    CHECK(taken.means == std::vector<std::string>{"faulthandler"});
    CHECK(taken.was_ended);
    CHECK(contains(text_of(taken), "in wait_in_c"));
    CHECK(contains(patient.bench.console(), "in wait_in_c"));
    const auto& exit = patient.bench.history().exit_of(0);
    CHECK(exit.signal == SIGABRT);
    CHECK(exit.was_stopped);
    CHECK_FALSE(exit.core_file);
  }

  TEST_CASE("Python prints its frames when gdb tells it to, and notices nothing") {
    if (!fs::exists(kGdb)) return;
    for (const bool by_shell : {false, true}) {
      CAPTURE(by_shell);
      Patient patient({.when = StacksWhen::kill, .gdb = kGdb, .limits = kLongLimits});
      by_shell ? patient.start_python_by_shell() : patient.start_python();
      patient.ask();
      const auto descriptors = open_descriptors();
      const auto taken = patient.ask();
      INFO(text_of(taken));
      if (contains(text_of(taken), "not permitted")) return;
      CHECK_FALSE(taken.was_ended);
      CHECK(open_descriptors() == descriptors);
      CHECK(process_state(patient.pid).letter == 'S');
      CHECK_FALSE(contains(patient.bench.console(), "woken"));
      if (contains(text_of(taken), "too old for the processor")) {
        CHECK(taken.means == std::vector<std::string>{"gdb"});
        CHECK(contains(text_of(taken), "py-spy"));
        MESSAGE("this machine's gdb cannot call functions on this machine's processor");
        continue;
      }
      CHECK(taken.means == std::vector<std::string>{"Python, called by gdb"});
      CHECK(taken.problems.empty());
      CHECK(contains(text_of(taken), "in wait_in_c"));
      CHECK(contains(text_of(taken), "in wait_in_thread"));
      CHECK_FALSE(contains(patient.bench.console(), "wait_in_c"));
    }
  }

  TEST_CASE("who has no Python lines is told how to get them") {
    Patient patient({.when = StacksWhen::never});
    patient.start_python();
    const auto taken = patient.ask();
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "pip install py-spy"));
  }

  TEST_CASE("Python behind a shell is ended rather than the shell") {
    Patient patient({.when = StacksWhen::kill});
    patient.start_python_by_shell();
    patient.bench.group().stop(SIGTERM, 100ms);
    patient.bench.run_to_end();
    REQUIRE(patient.bench.history().stacks.size() == 1);
    CHECK(contains(text_of(patient.bench.history().stacks[0]), "in wait_in_c"));
    CHECK(patient.bench.history().exit_of(0).was_stopped);
  }

  TEST_CASE("Python is not ended when its stack is asked for while it runs") {
    Patient patient({.when = StacksWhen::kill});
    patient.start_python();
    const auto taken = patient.ask();
    CHECK(taken.means == std::vector<std::string>{"the kernel"});
    CHECK(is_alive(patient.pid));
  }

  TEST_CASE("Python that a signal would end shows its frames instead") {
    Patient patient({.when = StacksWhen::stop});
    patient.start({kPython, "-c",
                   "import sys, time\n"
                   "print('up', file=open(sys.argv[1], 'w'), flush=True)\n"
                   "time.sleep(1000)\n",
                   patient.ready()});
    patient.bench.group().stop(SIGTERM, 20s);
    patient.bench.run_to_end();
    REQUIRE(patient.bench.history().stacks.size() == 1);
    CHECK(contains(text_of(patient.bench.history().stacks[0]), "in <module>"));
    CHECK(patient.bench.history().exit_of(0).was_stopped);
    CHECK(patient.bench.history().killed.empty());
  }

  TEST_CASE("a worker that ends in time is not looked at") {
    Patient patient({.when = StacksWhen::kill, .gdb = kGdb, .limits = kLongLimits});
    patient.start({"/bin/sh", "-c", "echo >" + patient.ready() + "; sleep 1000"});
    patient.bench.group().stop(SIGTERM, 20s);
    patient.bench.run_to_end();
    CHECK(patient.bench.history().stacks.empty());
  }

  TEST_CASE("killing at once does not wait for a tool that is at work") {
    for (const auto mode : {ContainmentMode::automatic, ContainmentMode::marker}) {
      const TemporaryFolder folder;
      Patient patient({.when = StacksWhen::kill,
                       .gdb = make_tool(folder.path(), "touch $0.up; sleep 1000"),
                       .limits = {.tool = 1000s, .together = 1000s}},
                      mode);
      patient.start_stuck("plain");
      patient.bench.group().stop(SIGTERM, 10ms);
      patient.bench.run_until([&] { return fs::exists(folder.path() / "tool.up"); });
      CHECK(patient.bench.history().exited.empty());
      patient.bench.group().stop(SIGKILL, 0ms);
      patient.bench.run_to_end();
      CHECK(patient.bench.history().exit_of(0).signal == SIGKILL);
      CHECK(patient.bench.history().stacks.empty());
      patient.bench.sweep();
      CHECK(patient.bench.containment().members().empty());
    }
  }

  TEST_CASE("a tool that does not end is ended, and what it says is bounded") {
    const TemporaryFolder folder;
    Patient patient(
        {.when = StacksWhen::never,
         .gdb = make_tool(folder.path(), "echo Thread 1; while :; do echo '#0 here'; done"),
         .limits = {.tool = 3s, .together = 4s}});
    patient.start_stuck("plain");
    const auto taken = patient.ask();
    CHECK(taken.means == std::vector<std::string>{"gdb"});
    REQUIRE(taken.problems.size() == 1);
    CHECK(contains(taken.problems[0], "not done in time"));
    CHECK(taken.lines.size() < 100);
    const auto bytes = fs::file_size(taken.file);
    CHECK(bytes > (200U << 10));
    CHECK(bytes < (300U << 10));
    CHECK(is_alive(patient.pid));
  }

  TEST_CASE("no more than so many tools run at the same time") {
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

  TEST_CASE("without a tool there is what the kernel says") {
    Patient patient({.when = StacksWhen::kill});
    patient.start_stuck("plain");
    patient.bench.group().stop(SIGTERM, 10ms);
    patient.bench.run_to_end();
    REQUIRE(patient.bench.history().stacks.size() == 1);
    CHECK(patient.bench.history().stacks[0].lines.size() == 2);
    CHECK(patient.bench.history().killed.size() == 1);
  }

  TEST_CASE("an attempt is not marked as over before the stacks have been taken") {
    Patient patient({.when = StacksWhen::stop});
    auto page = control::ControlPage::attach(::dup(patient.bench.control_page_fd()), 0);
    patient.start_stuck("plain");
    patient.bench.group().abort(1, "rank 1 is dying");
    patient.bench.group().stop(SIGTERM, 10ms);
    CHECK_FALSE(page.is_aborted());
    patient.bench.run_until([&] { return !patient.bench.history().stacks.empty(); });
    patient.bench.run_to_end();
    CHECK(page.is_aborted());
    CHECK(patient.bench.history().stacks.size() == 2);  // before the signal and before the kill
  }
}

}  // namespace stacks_test
