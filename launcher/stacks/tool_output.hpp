// Extracts the stacks from the output of debugging tools. Pure.
#pragma once

#include "launcher/stacks/stack_means.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// Returns the text from the first line of a stack on; empty if it contains no stack.
std::string stacks_in(std::string_view tool_output);

/// Extracts the Python stacks that faulthandler printed from gdb's output, dropping faulthandler's
/// header and its list of extension modules; empty if the text contains no stack.
std::string python_frames_in(std::string_view gdb_output);

/// Returns why there are no stacks, in one line: the tool's error if it is known, otherwise its
/// last line.
std::string problem_in(std::string_view tool_output);

}  // namespace ddprun
