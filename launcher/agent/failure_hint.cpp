#include "launcher/agent/failure_hint.hpp"

#include "launcher/plan/resolve_program.hpp"
#include "launcher/report/event_text.hpp"

#include <algorithm>
#include <string_view>

namespace ddprun {

namespace {

bool has_line(const WorkerExited& exit, std::string_view beginning) {
  return std::any_of(exit.last_lines.begin(), exit.last_lines.end(), [&](const std::string& line) {
    return without_rank(line).starts_with(beginning);
  });
}

}  // namespace

std::string failure_hint(const WorkerExited& exit, const LaunchPlan& plan, bool has_input) {
  const auto& command = plan.workers.front().arguments;
  if (!exit.failed() || !is_python(command)) return "";
  if (has_line(exit, "bdb.BdbQuit") || has_line(exit, "EOFError: EOF when reading a line")) {
    if (has_input) return "";
    return "its standard input was empty; --stdin=" + std::to_string(exit.rank) +
           " passes it that of ddprun, but to no other worker, which must not read it then";
  }
  if (!plan.interpreter_origin.empty() && has_line(exit, "ModuleNotFoundError: No module named ")) {
    return "the interpreter was " + command.front() + ", " + plan.interpreter_origin +
           "; if another one has the module, set PYTHON_EXEC to it";
  }
  if (has_line(exit, "RuntimeError: Checkpoint background process is dead")) {
    return "the process of async_save imports the script, whose main part must be within if "
           "__name__ == \"__main__\"";
  }
  if (has_line(exit, "terminate called without an active exception")) {
    return "PyTorch can abort at exit while a thread of Gloo frees tensors; barrier() and "
           "destroy_process_group() at the end avoid most cases";
  }
  return "";
}

}  // namespace ddprun
