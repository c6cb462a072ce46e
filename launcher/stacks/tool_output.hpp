// What tools for debugging print, reduced to the stacks in it. Pure.
#pragma once

#include "launcher/stacks/stack_means.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// From the first line of a stack on; empty if there is no stack in the text.
std::string stacks_in(std::string_view tool_output);

/// What Python's faulthandler has printed of its threads, amid gdb's words: without the reason and
/// the extension modules. Empty if there is no stack in the text.
std::string python_frames_in(std::string_view gdb_output);

/// Why there is none, in one line: the refusal if the tool names one, else its last line.
std::string complaint_in(std::string_view tool_output);

}  // namespace ddprun
