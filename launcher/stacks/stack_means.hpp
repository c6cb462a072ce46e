// By which means the stacks of a worker are taken: a pure decision from what is known of it.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

enum class StackMeans {
  runtime,        ///< the worker runtime in the process answers for each thread
  py_spy,         ///< py-spy dump: Python's frames, from outside
  python_by_gdb,  ///< Python's frames, printed by a function of Python that gdb calls in the
                  ///< process
  gdb,            ///< gdb: native frames of any process, from outside
  faulthandler,   ///< SIGABRT, upon which Python prints its frames, and ends
  kernel,         ///< what each thread waits for in the kernel
};

/// "the worker runtime", "py-spy", ...
std::string to_string(StackMeans means);

struct StackFacts {
  bool is_python = false;
  bool has_runtime = false;    ///< links the worker runtime and has got there
  bool catches_abort = false;  ///< has a handler for SIGABRT, as Python's faulthandler does
  bool may_end = false;        ///< would end now anyway, with nothing left to do
  bool has_py_spy = false;
  bool has_gdb = false;
};

/// Why stacks are taken.
struct StackMoment {
  std::string reason;
  int next_signal = 0;       ///< that the workers get afterwards; 0: none, they continue
  std::vector<int> ranks{};  ///< whose stacks are taken; empty: all
};

/// The means to try, the best first, until what they say is_enough(). Never empty: `kernel` is last
/// and always works.
std::vector<StackMeans> stack_means_for(const StackFacts& facts);

/// Whether nothing more need be tried once `means` has worked: native frames do not tell where a
/// Python program is.
bool is_enough(StackMeans means, const StackFacts& facts);

}  // namespace ddprun
