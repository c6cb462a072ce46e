#include "launcher/agent/failure_hint.hpp"

#include <doctest/doctest.h>

namespace failure_hint_test {

using ddprun::failure_hint;
using ddprun::LaunchPlan;
using ddprun::WorkerExited;

TEST_SUITE("failure hint") {
  TEST_CASE("failure hint: known errors in a Python worker's last lines yield a remedy") {
    struct Row {
      std::vector<std::string> last_lines;
      bool has_input;
      std::string hint;
    };
    const std::string input =
        "its standard input was empty; --stdin=3 passes it that of ddprun, but to no other worker, "
        "which must not read it then";
    const std::string interpreter =
        "the interpreter was /usr/bin/python3, the first python3 in PATH; if another one has the "
        "module, set PYTHON_EXEC to it";
    const Row rows[] = {
        {{"    if self.quitting: raise BdbQuit", "bdb.BdbQuit"}, false, input},
        {{"bdb.BdbQuit"}, true, ""},
        {{"EOFError: EOF when reading a line"}, false, input},
        {{"[rank3]: EOFError: EOF when reading a line", "a warning after it"}, false, input},
        {{"EOFError: Ran out of input"}, false, ""},
        {{"ModuleNotFoundError: No module named 'torch'"}, false, interpreter},
        {{"terminate called without an active exception"},
         true,
         "PyTorch can abort at exit while a thread of Gloo frees tensors; barrier() and "
         "destroy_process_group() at the end avoid most cases"},
        {{"RuntimeError: Checkpoint background process is dead. Exit code: 1"},
         true,
         "the process of async_save imports the script, whose main part must be within if "
         "__name__ == \"__main__\""},
        {{"terminate called after throwing an instance of 'int'"}, true, ""},
        {{}, false, ""},
    };
    LaunchPlan plan;
    plan.workers = {{.arguments = {"/usr/bin/python3", "-u", "train.py"}}};
    plan.interpreter_origin = "the first python3 in PATH";
    for (const auto& row : rows) {
      CAPTURE(&row - rows);
      WorkerExited exit{.rank = 3, .exit_code = 1, .last_lines = row.last_lines};
      CHECK(failure_hint(exit, plan, row.has_input) == row.hint);
      exit.exit_code = 0;
      CHECK(failure_hint(exit, plan, row.has_input).empty());
    }
  }

  TEST_CASE("failure hint: programs other than Python get no hint") {
    LaunchPlan plan;
    plan.workers = {{.arguments = {"./train"}}};
    const WorkerExited exit{.exit_code = 1, .last_lines = {"bdb.BdbQuit"}};
    CHECK(failure_hint(exit, plan, false).empty());
  }
}

}  // namespace failure_hint_test
