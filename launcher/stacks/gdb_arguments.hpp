// The gdb command lines that print the stacks of a process from outside. Pure.
#pragma once

#include "launcher/stacks/native_stack.hpp"

#include <cstddef>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Prints the native frames of all threads on standard output. Takes seconds for a process with
/// PyTorch, whose libraries have a million symbols.
std::vector<std::string> native_stack_arguments(const std::string& gdb, pid_t pid);

/// Makes a Python process write the Python frames of all its threads to a memory file, of which gdb
/// prints fewer than `bytes_max` bytes (a multiple of the page size). The frames are written by the
/// function that Python's faulthandler calls in signal handlers: it takes no locks and allocates
/// nothing. If Python does not export it (3.10, and 3.13 and newer), faulthandler's handler of
/// SIGILL or SIGABRT calls it, if enabled; after one such signal the signal has its default action.
/// The process continues unchanged. Reads only symbols of Python and the C library. `mappings` are
/// those of the process.
std::vector<std::string> python_stack_arguments(const std::string& gdb, pid_t pid,
                                                std::size_t bytes_max,
                                                const std::vector<Mapping>& mappings);

/// Returns the memory of Python's code, in a program or a library; from 0 to 0 if not found.
Mapping python_code(const std::vector<Mapping>& mappings);

}  // namespace ddprun
