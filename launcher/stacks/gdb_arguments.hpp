// The command lines by which gdb shows the stacks of a process from outside. Pure.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Native frames of all threads, on standard output. Takes seconds for a process with PyTorch in
/// it, whose libraries have a million symbols.
std::vector<std::string> native_stack_arguments(const std::string& gdb, pid_t pid);

/// Lets the process, which is Python, write the Python frames of all its threads to the file
/// `target`, which must exist: by the function that its faulthandler calls in handlers of signals,
/// and which therefore neither takes locks nor allocates. The process goes on as if nothing had
/// happened. Reads no symbols but those of Python and the C library.
std::vector<std::string> python_stack_arguments(const std::string& gdb, pid_t pid,
                                                const std::string& target);

}  // namespace ddprun
