#include "launcher/stacks/stack_means.hpp"

namespace ddprun {

std::string to_string(StackMeans means) {
  switch (means) {
    case StackMeans::runtime:
      return "the worker runtime";
    case StackMeans::python_thread:
      return "a thread of the worker";
    case StackMeans::py_spy:
      return "py-spy";
    case StackMeans::python_by_gdb:
      return "Python under gdb";
    case StackMeans::gdb:
      return "gdb";
    case StackMeans::faulthandler:
      return "faulthandler";
    case StackMeans::kernel:
      return "the kernel";
  }
  return "";
}

std::vector<StackMeans> stack_means_for(const StackFacts& facts) {
  std::vector<StackMeans> means;
  if (facts.has_runtime) means.push_back(StackMeans::runtime);
  if (facts.is_python && facts.has_thread) means.push_back(StackMeans::python_thread);
  if (facts.is_python && facts.has_py_spy) means.push_back(StackMeans::py_spy);
  if (facts.is_quick) return means;
  if (facts.is_python && facts.has_gdb) means.push_back(StackMeans::python_by_gdb);
  // Last, since it ends the process.
  const bool can_abort = facts.is_python && facts.catches_abort && facts.may_end;
  if (can_abort) means.push_back(StackMeans::faulthandler);
  // Native frames are a poor substitute for Python's, and reading symbols would use up the time for
  // those.
  if (facts.has_gdb && !can_abort) means.push_back(StackMeans::gdb);
  means.push_back(StackMeans::kernel);
  return means;
}

bool needs_stop(StackMeans means) {
  return means == StackMeans::python_by_gdb || means == StackMeans::gdb ||
         means == StackMeans::faulthandler;
}

bool is_enough(StackMeans means, const StackFacts& facts) {
  return !facts.is_python || means == StackMeans::python_thread || means == StackMeans::py_spy ||
         means == StackMeans::python_by_gdb || means == StackMeans::faulthandler;
}

}  // namespace ddprun
