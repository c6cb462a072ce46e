#include "launcher/stacks/gdb_arguments.hpp"

namespace ddprun {

namespace {

// Where the path of the target is put into the process: below all that a called function uses of
// the stack, and well inside the smallest stacks.
constexpr const char* kScratch = "($sp - 32768)";

/// gdb looks at the process and runs `commands` one by one, going on if one fails. It looks at
/// nobody's files of settings and asks no server.
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

}  // namespace

std::vector<std::string> native_stack_arguments(const std::string& gdb, pid_t pid) {
  return gdb_arguments(gdb, pid, {"set debuginfod enabled off", "set auto-load off", "set width 0"},
                       {"thread apply all bt 64"});
}

std::vector<std::string> python_stack_arguments(const std::string& gdb, pid_t pid,
                                                const std::string& target) {
  const std::string scratch = kScratch;
  return gdb_arguments(
      gdb, pid,
      {"set debuginfod enabled off", "set auto-load off", "set auto-solib-add off", "set width 0"},
      {
          // Python is a program or a library.
          "sharedlibrary libpython",
          "sharedlibrary /libc\\.",
          "set language c",
          // All other threads stand still during the calls.
          "set scheduler-locking on",
          // A signal during a call is the process' own matter, unless the call itself is to blame:
          // then it is given up and the process does not hear of it.
          "set unwindonsignal on",
          "handle all nostop noprint pass",
          "handle SIGSEGV SIGBUS stop nopass",
          // A gdb that is older than the processor may be unable to write its registers, notices
          // only when it puts them back after a call, and lets the process go on into nowhere. So
          // it writes a flag first that nothing reads, and calls nothing if that fails.
          "set $can_call = $_isvoid($mxcsr)",  // no such register: another processor
          "set $flags = (int) $mxcsr",
          "set $can_call = ($mxcsr = $flags ^ 32, $mxcsr = $flags, 1)",
          "set {char[" + std::to_string(target.size() + 1) + "]}" + scratch + " = \"" + target +
              "\"",
          "set $fd = $can_call ? ((int (*)(void *, int)) open)(" + scratch +
              ", 1) : -1",  // O_WRONLY
          "print $fd < 0 ? (void *) 0 : ((void *(*)(int, void *, void *)) "
          "_Py_DumpTracebackThreads)($fd, 0, 0)",
          "print $fd < 0 ? 0 : ((int (*)(int)) close)($fd)",
      });
}

}  // namespace ddprun
