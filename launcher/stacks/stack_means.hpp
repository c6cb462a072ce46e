// Selects the methods by which the stacks of a worker are taken. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

enum class StackMeans {
  runtime,        ///< the worker runtime in the process, for each thread
  python_thread,  ///< a thread of a preloaded worker: Python's frames
  py_spy,         ///< py-spy dump: Python's frames, from outside
  python_by_gdb,  ///< Python's frames, printed by a Python function that gdb calls
  gdb,            ///< native frames of any process, from outside
  faulthandler,   ///< SIGABRT, at which Python prints its frames and ends
  kernel,         ///< the kernel function in which each thread waits
};

/// Returns text such as "the worker runtime" or "py-spy".
std::string to_string(StackMeans means);

struct StackFacts {
  bool is_python = false;
  bool has_runtime = false;    ///< links the worker runtime and has initialised it
  bool has_thread = false;     ///< may have the thread of StackMeans::python_thread
  bool catches_abort = false;  ///< has a handler for SIGABRT, as Python's faulthandler does
  bool may_end = false;        ///< is about to be stopped anyway, without cleanup
  bool has_py_spy = false;
  bool has_gdb = false;
  bool is_quick = false;  ///< only methods that take less than a second are wanted
};

/// The ranks whose stacks are taken.
struct StackScope {
  std::optional<std::vector<int>> ranks{};  ///< by all methods; nullopt: all ranks
  /// The run hangs: of the other ranks, which wait, the stacks of the main threads are taken by
  /// methods that take less than a second.
  bool is_hang = false;
};

/// The occasion on which stacks are taken.
struct StackMoment {
  std::string reason;
  int next_signal = 0;  ///< signal sent to the workers afterwards; 0: none
  StackScope scope{};
};

/// Returns the methods to try, best first, until a result is_enough(). The last one, `kernel`,
/// always works; quick methods do not include it.
std::vector<StackMeans> stack_means_for(const StackFacts& facts);

/// Returns true if the method must stop the process, and so waits for one in state D.
bool needs_stop(StackMeans means);

/// Returns true if no other method is needed after `means` has worked. Native frames do not show
/// the position of a Python program.
bool is_enough(StackMeans means, const StackFacts& facts);

}  // namespace ddprun
