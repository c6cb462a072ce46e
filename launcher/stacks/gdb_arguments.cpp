#include "launcher/stacks/gdb_arguments.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

// Address for the name of the memory file in the process: below the stack of a called function, and
// well inside the smallest stacks.
constexpr const char* kScratch = "($sp - 32768)";
constexpr const char* kAction = "($sp - 28672)";

// Offset in struct sigaction of glibc, on 64-bit processors.
constexpr const char* kFlagsOffset = "136";
// SA_RESETHAND | SA_ONSTACK
constexpr const char* kFlags = "0x88000000";

/// Returns arguments with which gdb inspects the process and runs `commands` in order, continuing
/// after failures. It reads no settings files and contacts no server.
std::vector<std::string> gdb_arguments(const std::string& gdb, pid_t pid,
                                       const std::vector<std::string>& settings,
                                       const std::vector<std::string>& commands) {
  std::vector<std::string> arguments{gdb, "--nx", "--batch"};
  for (const auto& setting : settings) {
    arguments.emplace_back("-iex");
    arguments.push_back(setting);
  }
  arguments.insert(arguments.end(), {"-p", std::to_string(pid)});
  for (const auto& command : commands) {
    arguments.emplace_back("-ex");
    arguments.push_back(command);
  }
  return arguments;
}

/// For Pythons that do not export the function: faulthandler's handler of SIGILL calls it, with
/// standard error. The handler then raises the signal, which gdb discards, and resets its action.
/// Libraries such as UCX, which Debian's PyTorch uses through MPI, handle SIGILL themselves, but
/// leave SIGABRT to Python.
std::vector<std::string> call_handler(const Mapping& python) {
  const std::string sigaction = "((int (*)(int, void *, void *)) sigaction)";
  const std::string find_handler =
      "set $handler = $fd < 0 || $dump ? 0 : " + sigaction + "($signal, 0, $action) ? 0 : *$action";
  const std::string keep_pythons = "set $handler = $handler >= " + std::to_string(python.begin) +
                                   " && $handler < " + std::to_string(python.end) +
                                   " ? $handler : 0";
  return {std::string("set $action = (long *) ") + kAction, "set $signal = 4", find_handler,
          keep_pythons, "set $signal = $handler ? 4 : 6", find_handler, keep_pythons,
          "set $error = $handler ? ((int (*)(int)) dup)(2) : -1",
          "print $error < 0 ? 0 : ((int (*)(int, int)) dup2)($fd, 2)",
          "print $error < 0 ? 0 : ((int (*)(int)) $handler)($signal)",
          "print $error < 0 ? 0 : ((int (*)(int, int)) dup2)($error, 2)",
          "print $error < 0 ? 0 : ((int (*)(int)) close)($error)",
          // Restores the handler for one signal, for the next request. A signal from elsewhere then
          // still ends the process, since the signal that faulthandler raises has the default
          // action.
          "print $error < 0 ? 0 : " + sigaction + "($signal, 0, $action)",
          "set *$action = $error < 0 ? *$action : $handler",
          std::string("set {int} ((char *) $action + ") + kFlagsOffset + ") = " + kFlags,
          "print $error < 0 ? 0 : " + sigaction + "($signal, $action, 0)"};
}

/// gdb prints the text of the memory file `$fd` if it is shorter than `size`, and closes it. The
/// text ends at a page of zeros at the end of the file.
std::vector<std::string> show_file(const std::string& size) {
  return {"print $fd < 0 ? 0 : ((int (*)(int, long)) ftruncate)($fd, " + size + " - 1)",
          "set $text = $fd < 0 ? (char *) 0 : ((char *(*)(long, long, int, int, int, long)) mmap)"
          "(0, " +
              size + ", 1, 1, $fd, 0)",  // PROT_READ, MAP_SHARED
          "printf \"%s\\n\", $text",
          "print $fd < 0 ? 0 : ((int (*)(char *, long)) munmap)($text, " + size + ")",
          "print $fd < 0 ? 0 : ((int (*)(int)) close)($fd)"};
}

}  // namespace

std::vector<std::string> native_stack_arguments(const std::string& gdb, pid_t pid) {
  return gdb_arguments(gdb, pid, {"set debuginfod enabled off", "set auto-load off", "set width 0"},
                       {"thread apply all -ascending bt 64"});
}

std::vector<std::string> python_stack_arguments(const std::string& gdb, pid_t pid,
                                                std::size_t bytes_max,
                                                const std::vector<Mapping>& mappings) {
  const std::string scratch = kScratch;
  const auto size = std::to_string(bytes_max);
  std::vector<std::string> commands = {
      // Python's code is in a program or a library.
      "sharedlibrary libpython",
      "sharedlibrary /libc\\.",
      "set language c",
      // All other threads are stopped during the calls.
      "set scheduler-locking on",
      // Signals during a call are passed to the process, except those that the call causes: the
      // call is then abandoned, and the process does not receive the signal.
      "set unwindonsignal on",
      "handle all nostop noprint pass",
      "handle SIGSEGV SIGBUS stop nopass",
      "handle SIGILL SIGABRT nostop noprint nopass",
      // A gdb that is older than the processor may be unable to write its registers. It detects
      // that only when it restores them after a call, and the process then continues with wrong
      // registers. So first write an unused flag, and call nothing if that fails.
      "set $can_call = $_isvoid($mxcsr)",  // no such register: another processor
      "set $flags = (int) $mxcsr",
      "set $can_call = ($mxcsr = $flags ^ 32, $mxcsr = $flags, 1)",
      "set {char[7]}" + scratch + " = \"frames\"",
      "set $fd = $can_call ? ((int (*)(void *, int)) memfd_create)(" + scratch +
          ", 1) : -1",  // MFD_CLOEXEC
      "set $dump = (long) 0",
      "set $dump = (long) &_Py_DumpTracebackThreads",
      "print $fd < 0 || !$dump ? (void *) 0 : ((void *(*)(int, void *, void *)) $dump)"
      "($fd, 0, 0)",
  };
  for (auto& command : call_handler(python_code(mappings))) commands.push_back(std::move(command));
  for (auto& command : show_file(size)) commands.push_back(std::move(command));
  // For problem_in().
  commands.emplace_back(
      "printf \"ddprun: descriptor %d, exported %d, handler %d\\n\", $fd, $dump != 0, "
      "$handler != 0");
  return gdb_arguments(
      gdb, pid,
      {"set debuginfod enabled off", "set auto-load off", "set auto-solib-add off", "set width 0"},
      commands);
}

Mapping python_code(const std::vector<Mapping>& mappings) {
  Mapping found;
  for (const auto& mapping : mappings) {
    const auto name = mapping.file.substr(mapping.file.rfind('/') + 1);
    const bool is_library = name.starts_with("libpython");
    if (!is_library && !name.starts_with("python")) continue;
    // If there is a library, the program only calls it.
    if (mapping.file == found.file) {
      found.end = std::max(found.end, mapping.end);
    } else if (found.file.empty() || is_library) {
      found = mapping;
    }
  }
  return found;
}

}  // namespace ddprun
