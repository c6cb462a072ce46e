// The table of ddprun's options. Parser, help, configuration keys and their JSON Schema, shell
// completions and the OPTIONS of the man page are generated from it. Constant data; any thread may
// read it.
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
  /// Type of the value; empty for a flag. Alternatives are separated by '|': words in lower case,
  /// N, RANK, SECONDS, PORT or 0-3 for numbers, FILE, DIR or HOST for completion, any other word in
  /// upper case for text. "X,..." and "X;..." are lists, with '=' or ':' in X maps.
  std::string_view value_name;
  OptionGroup group = OptionGroup::workers;
  ConfigSection section = ConfigSection::none;
  /// Environment variables with the default, in order of precedence, separated by a space.
  std::string_view variables;
  std::string_view default_text;  ///< for documents; empty: not mentioned
  std::string_view help;          ///< without the default
  /// Stores the value (of a flag "0" or "1"). Returns the problem with it.
  Problem (*apply)(LaunchOptions& options, const std::string& value);
  /// Addition to `help` in the man page, in the markup of mdoc_text().
  std::string_view man{};
  std::string_view other_key{};  ///< in the configuration file; empty: the name

  bool is_flag() const { return value_name.empty(); }
  /// Unknown to torchrun. Such options never make an abbreviation of torchrun's ambiguous.
  bool is_own() const { return group == OptionGroup::own; }
  std::string_view key() const { return other_key.empty() ? name : other_key; }
};

std::span<const OptionEntry> option_table();

/// The title of a group in documents.
std::string_view title_of(OptionGroup group);

/// The JSON values that an option accepts and its completions, derived from its value_name.
struct ValueShape {
  bool takes_boolean = false;
  bool takes_number = false;
  bool takes_text = false;           ///< any text; false: only `words` and references to variables
  std::vector<std::string> words{};  ///< such as "auto"
  char list_separator = 0;           ///< not 0: also an array
  char map_separator = 0;            ///< not 0: also an object, "key<separator>value"

  bool operator==(const ValueShape&) const = default;
};
ValueShape shape_of(const OptionEntry& entry);

/// Returns the entry with this name (dashes or underscores), or nullptr.
const OptionEntry* find_option(std::string_view name);

/// Returns `name` with underscores for dashes.
std::string canonical_name(std::string_view name);

}  // namespace ddprun
