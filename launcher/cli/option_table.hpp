// The one table of ddprun's options. Parser and help text are made from it, and the man page and
// the completions are checked against it. Constant data; any thread may read it.
#pragma once

#include "launcher/cli/launch_options.hpp"

#include <span>
#include <string>
#include <string_view>

namespace ddprun {

enum class OptionGroup { workers, failure, output, nodes, own, information };

struct OptionEntry {
  std::string_view name;        ///< with underscores; dashes mean the same
  char short_name = 0;          ///< 0: none
  std::string_view value_name;  ///< empty: a flag without a value
  OptionGroup group = OptionGroup::workers;
  /// Environment variables that give the default, in order of precedence: up to two names with a
  /// space between them.
  std::string_view variables;
  std::string_view default_text;  ///< for the help; empty: none worth telling
  std::string_view help;          ///< one or two sentences, without the default
  /// Stores the value (for a flag the text of a switch, "1" from the command line) and returns
  /// what is wrong with it, or nothing.
  std::string (*apply)(LaunchOptions& options, const std::string& value);

  bool is_flag() const { return value_name.empty(); }
  /// Not known to torchrun. Such options never make an abbreviation of torchrun's ambiguous.
  bool is_own() const { return group == OptionGroup::own; }
};

std::span<const OptionEntry> option_table();

/// The title of a group in the help text.
std::string_view title_of(OptionGroup group);

/// The entry with this name (dashes or underscores), or nullptr.
const OptionEntry* find_option(std::string_view name);

/// `name` with underscores for dashes.
std::string canonical_name(std::string_view name);

}  // namespace ddprun
