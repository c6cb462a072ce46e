// The command lines by which gdb shows the stacks of a process from outside. Pure.
#pragma once

#include "launcher/stacks/native_stack.hpp"

#include <cstddef>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Native frames of all threads, on standard output. Takes seconds for a process with PyTorch in
/// it, whose libraries have a million symbols.
std::vector<std::string> native_stack_arguments(const std::string& gdb, pid_t pid);

/// Lets the process, which is Python, write the Python frames of all its threads to a memory file
/// of its own, of which gdb prints fewer than `bytes_max` bytes (a multiple of the page size). The
/// frames are written by the function that Python's faulthandler calls in handlers of signals: it
/// takes no locks and allocates nothing. Where Python does not export it (3.10, and 3.13 and
/// newer), faulthandler's handler of SIGILL or SIGABRT calls it, if that is enabled; the signal has
/// its default action after it has come once. The process continues unchanged. Reads no symbols but
/// those of Python and the C library. `mappings` are the process' own.
std::vector<std::string> python_stack_arguments(const std::string& gdb, pid_t pid,
                                                std::size_t bytes_max,
                                                const std::vector<Mapping>& mappings);

/// The memory of Python's code, which is a program or a library; from 0 to 0 if there is none.
Mapping python_code(const std::vector<Mapping>& mappings);

}  // namespace ddprun
