#include "launcher/stacks/stack_means.hpp"

namespace ddprun {

std::string to_string(StackMeans means) {
  switch (means) {
    case StackMeans::runtime:
      return "the worker runtime";
    case StackMeans::py_spy:
      return "py-spy";
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
  if (facts.is_python && facts.has_py_spy) means.push_back(StackMeans::py_spy);
  if (facts.has_gdb) means.push_back(StackMeans::gdb);
  // Last of those that tell a stack: the process does not outlive it.
  if (facts.is_python && facts.catches_abort && facts.may_end)
    means.push_back(StackMeans::faulthandler);
  means.push_back(StackMeans::kernel);
  return means;
}

bool is_enough(StackMeans means, const StackFacts& facts) {
  return !facts.is_python || means == StackMeans::py_spy || means == StackMeans::faulthandler;
}

}  // namespace ddprun
