#include "launcher/cli/help_text.hpp"

#include "launcher/cli/option_table.hpp"
#include "rendezvous/base/text.hpp"
#include <ddprun/version.hpp>

#include <algorithm>

namespace ddprun {

namespace {

// The help is readable between these widths.
constexpr int kColumnsMin = 40;
constexpr int kColumnsMax = 100;

constexpr const char* kPurpose =
    "Starts PROGRAM as several workers on this machine, connects them through a store, and "
    "restarts them after a failure.\n\n";

constexpr const char* kRules =
    " In its arguments ${local_rank} is replaced by the worker's local rank and $$ by a dollar "
    "sign.\n"
    "\n"
    "Option names may be abbreviated; dashes and underscores are equivalent. A variable PET_NAME, "
    "such as PET_MAX_RESTARTS, sets the default of the torchrun option of that name.\n";

void add_wrapped(std::string& text, std::string_view paragraph, int columns) {
  for (const auto& line : wrap_text(paragraph, columns)) text += line + "\n";
}

std::string heading(const OptionEntry& entry) {
  std::string text = "  ";
  if (entry.short_name != 0) text += std::string("-") + entry.short_name + ", ";
  text += "--" + std::string(entry.name);
  if (!entry.is_flag()) text += " " + std::string(entry.value_name);
  return text;
}

}  // namespace

std::string help_text(int columns, const Invocation& invocation) {
  columns = std::clamp(columns, kColumnsMin, kColumnsMax);
  std::string text;
  const auto opening = "Usage: " + invocation.name +
                       " [options] PROGRAM [arguments of the program]\n\n" + kPurpose +
                       std::string(program_help(invocation.mode)) + kRules;
  add_wrapped(text, opening, columns);
  const OptionEntry* last = nullptr;
  for (const auto& entry : option_table()) {
    if (last == nullptr || last->group != entry.group) {
      text += (last == nullptr ? "" : "\n") + std::string(title_of(entry.group)) + ":\n";
    }
    last = &entry;
    add_wrapped(text, heading(entry), columns);
    auto help = "      " + std::string(entry.help);
    if (!entry.default_text.empty()) help += " (default: " + std::string(entry.default_text) + ")";
    add_wrapped(text, help, columns);
  }
  return text;
}

std::string wrap_usage(std::string_view text, int columns) {
  std::string wrapped;
  add_wrapped(wrapped, text, std::clamp(columns, kColumnsMin, kColumnsMax));
  return wrapped;
}

std::string version_text(const Invocation& invocation) {
  const auto called = invocation.mode == CompatMode::ddprun ? "" : ", called as " + invocation.name;
  return std::string("ddprun ") + kVersion + called + "\n";
}

}  // namespace ddprun
