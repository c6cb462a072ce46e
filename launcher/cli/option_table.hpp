// The table of ddprun's options. Parser, help, configuration keys and their JSON Schema, shell
// completions and the OPTIONS section of the man page are generated from it. Constant data;
// thread-safe.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "rendezvous/base/problem.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

enum class OptionGroup { workers, failure, output, nodes, own, information };

/// Sections of a configuration file.
enum class ConfigSection {
  none,  ///< command line only
  job,
  rendezvous,
  node,  ///< in "defaults" and in each entry of "nodes"
  restart,
  signals,
  logs,
  security,
  ssh,
};

struct OptionEntry {
  std::string_view name;  ///< with underscores; dashes are equivalent
  char short_name = 0;    ///< 0: none
  /// Type of the value; empty for a flag. '|' separates alternatives. Words in lower case are
  /// literal; N, RANK, SECONDS, PORT and 0-3 are numbers; FILE, DIR and HOST are completed; other
  /// words in upper case are text. "X,..." and "X;..." are lists, or maps if X contains '=' or ':'.
  std::string_view value_name;
  OptionGroup group = OptionGroup::workers;
  ConfigSection section = ConfigSection::none;
  /// Environment variables for the default, in order of precedence, separated by spaces.
  std::string_view variables;
  std::string_view default_text;  ///< default in documents; empty: not mentioned
  std::string_view help;          ///< help text without the default
  /// Stores the value ("0" or "1" for a flag). Returns the problem with it, if any.
  Problem (*apply)(LaunchOptions& options, const std::string& value);
  /// Addition to `help` in the man page, in the markup of mdoc_text().
  std::string_view man{};
  std::string_view other_key{};  ///< key in configuration files; empty: the name

  bool is_flag() const { return value_name.empty(); }
  /// True if torchrun lacks the option. It never makes abbreviations of torchrun's ambiguous.
  bool is_own() const { return group == OptionGroup::own; }
  std::string_view key() const { return other_key.empty() ? name : other_key; }
};

std::span<const OptionEntry> option_table();

/// Returns the title of a group for documents.
std::string_view title_of(OptionGroup group);

/// The JSON values that an option accepts and its completions, derived from its value_name.
struct ValueShape {
  bool takes_boolean = false;
  bool takes_number = false;
  bool takes_text = false;           ///< any text; false: only `words` and references to variables
  std::vector<std::string> words{};  ///< allowed words such as "auto"
  char list_separator = 0;           ///< separator, if an array is allowed; 0: none
  char map_separator = 0;            ///< separator of key and value in an object; 0: none

  bool operator==(const ValueShape&) const = default;
};
ValueShape shape_of(const OptionEntry& entry);

/// Returns the entry with this name (dashes or underscores), or nullptr.
const OptionEntry* find_option(std::string_view name);

/// Returns `name` with dashes replaced by underscores.
std::string canonical_name(std::string_view name);

}  // namespace ddprun
