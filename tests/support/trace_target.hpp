// A worker for stack captures, with real tools if available.
#pragma once

#include "tests/support/hold.hpp"
#include "tests/support/worker_bench.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace ddprun::test {

inline constexpr const char* kGdb = "/usr/bin/gdb";
inline constexpr const char* kPython = "/usr/bin/python3";

// On a new machine a debugger is first read from a slow disk.
inline constexpr StackLimits kLongLimits{.tool = std::chrono::seconds(50),
                                         .together = std::chrono::seconds(55)};

inline constexpr const char* kPythonScript =
    "import ctypes, signal, sys, threading\n"
    "def wait_in_thread():\n"
    "  threading.Event().wait()\n"
    "def wait_in_c():\n"
    "  print('up', file=open(sys.argv[1], 'w'), flush=True)\n"
    "  while ctypes.CDLL(None).pause() or True: print('woken', file=sys.stderr, flush=True)\n"
    "threading.Thread(target=wait_in_thread, daemon=True).start()\n"
    "signal.signal(signal.SIGTERM, lambda *_: None)\n"
    "wait_in_c()\n";

inline std::string text_of(const StacksTaken& taken) {
  std::string text;
  for (const auto& line : taken.lines) text += line + "\n";
  for (const auto& problem : taken.problems) text += "problem: " + problem + "\n";
  return text;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return std::distance(begin(folder), end(folder));
}

/// A bench and its one worker.
class TraceTarget {
 public:
  explicit TraceTarget(const StackPlan& plan, ContainmentMode mode = ContainmentMode::automatic)
      : bench(1, mode, plan) {}

  /// Returns when the worker reports that it is ready.
  void start(std::vector<std::string> arguments) {
    WorkerSpec spec = shell_worker(0, "");
    spec.arguments = std::move(arguments);
    const auto folder = hold(bench.folder());
    spec.error_file = folder / "error.json";
    spec.stacks_file = folder / "stacks.txt";
    spec.environment = {{"DDPRUN_CONTROL_FD", std::to_string(bench.control_page_fd())},
                        {"DDPRUN_CONTROL_SLOT", "0"},
                        {"TORCHELASTIC_ERROR_FILE", spec.error_file.path().string()},
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

  StacksTaken take_stacks() {
    const auto before = bench.history().stacks.size();
    bench.group().take_stacks("for a test");
    bench.run_until([&] { return bench.history().stacks.size() > before; });
    return bench.history().stacks.back();
  }

  std::string ready() const { return (bench.folder() / "ready").string(); }

  WorkerBench bench;
  pid_t pid = -1;
};

/// Creates a program that replaces a tool.
inline std::string make_tool(const std::filesystem::path& folder, const std::string& script) {
  const auto path = folder / "tool";
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  ::chmod(path.c_str(), 0755);
  return path;
}

}  // namespace ddprun::test
