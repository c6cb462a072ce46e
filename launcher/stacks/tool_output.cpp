#include "launcher/stacks/tool_output.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <vector>

namespace ddprun {

namespace {

using namespace std::string_view_literals;

struct Refusal {
  std::string_view pattern;
  std::string_view meaning;  // appended to the tool's line; empty: none
};

// Prefix of the lines that ddprun makes gdb print about its calls; only their meaning is shown.
constexpr std::string_view kOwnLine = "ddprun: ";

// Messages of gdb and py-spy: rejected traces, registers that gdb cannot write (gdb 13 on a
// processor with AMX), and the calls of Python that were possible.
constexpr Refusal kRefusals[] = {
    {"Operation not permitted"sv, ""sv},
    {"Permission denied"sv, ""sv},
    {"Permission Denied"sv, ""sv},
    {"Couldn't write extended state"sv, "This gdb is too old for the processor's registers."sv},
    {"No symbol \"memfd_create\""sv, ""sv},
    {"descriptor -1,"sv, "The process could not create a memory file for its frames."sv},
    {"exported 0, handler 0"sv,
     "This Python exports no function that prints its frames, and its faulthandler is not enabled "
     "(PYTHONFAULTHANDLER=1), or libraries handle SIGILL and SIGABRT."sv}};

// py-spy appends its own stack if RUST_BACKTRACE is set.
constexpr std::string_view kBacktrace = "Stack backtrace:";

bool is_frame(std::string_view line) {
  return line.starts_with("#") || line.starts_with("    ");
}

}  // namespace

std::string stacks_in(std::string_view tool_output) {
  const auto lines = split(tool_output, '\n');
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    if (!lines[i].starts_with("Thread ") || !is_frame(lines[i + 1])) continue;
    std::string text;
    for (; i < lines.size(); ++i) {
      // gdb prints this after the stacks.
      if (!lines[i].starts_with("[Inferior ")) text += lines[i] + "\n";
    }
    while (text.ends_with("\n\n")) text.pop_back();
    return text;
  }
  return {};
}

std::string python_frames_in(std::string_view gdb_output) {
  std::string text;
  for (const auto& line : split(gdb_output, '\n')) {
    const bool is_stack = line.ends_with("(most recent call first):");
    if (text.empty() && !is_stack) continue;
    // Output of the following calls.
    if (line.starts_with("$")) break;
    if (!line.starts_with("Extension modules: ")) text += line + "\n";
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

std::string problem_in(std::string_view tool_output) {
  std::string last;
  for (const auto& line : split(tool_output, '\n')) {
    for (const auto& refusal : kRefusals) {
      if (line.find(refusal.pattern) == std::string::npos) continue;
      if (line.starts_with(kOwnLine)) return std::string(refusal.meaning);
      return refusal.meaning.empty() ? line : line + " " + std::string(refusal.meaning);
    }
    if (line == kBacktrace) break;
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin != std::string::npos && !line.starts_with(kOwnLine)) last = line.substr(begin);
  }
  return last.empty() ? "it printed nothing" : last;
}

}  // namespace ddprun
