// Which keys a configuration file may have, made from the option table: an option's key is its
// name, but for two, in the section of its subject. So an option exists once, with its name, type,
// range and help. Constant data and pure functions.
#pragma once

#include "launcher/cli/option_table.hpp"
#include "launcher/cli/option_values.hpp"
#include "launcher/config/json.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Where in the file an option may stand.
enum class ConfigSection {
  none,  ///< on the command line only
  job,
  rendezvous,
  node,  ///< in "defaults" and in each entry of "nodes"
  restart,
  signals,
  logs,
  security,
  ssh,
};

ConfigSection section_of(const OptionEntry& entry);

/// The option's name, unless that would repeat the section's.
std::string_view key_of(const OptionEntry& entry);

/// The sections that are objects at the top of the file, with the names of their keys.
struct SectionName {
  ConfigSection section;
  std::string_view name;
  std::string_view help;
};
std::span<const SectionName> section_names();

/// A key that is no option's.
struct OwnKey {
  enum class Value { command, environment, text, port, texts };
  ConfigSection section;
  std::string_view name;
  Value value;
  std::string_view help;
};
std::span<const OwnKey> own_keys();

/// The key of this name in this section, or nullptr.
const OwnKey* find_own_key(ConfigSection section, std::string_view name);

/// What JSON values an option takes, read from the name of its value in the help.
struct ValueShape {
  bool takes_boolean = false;
  bool takes_number = false;
  bool takes_text = false;           ///< any; else only `words` and references to variables
  std::vector<std::string> words{};  ///< such as "auto"
  char list_separator = 0;           ///< not 0: an array will do too
  char map_separator = 0;            ///< not 0: an object will do too, "key<separator>value"

  bool operator==(const ValueShape&) const = default;
};
ValueShape shape_of(const OptionEntry& entry);

/// "a number or one of auto, cpu, gpu".
std::string describe_shape(const ValueShape& shape);

/// The value as the option's text, references not yet replaced; or what is wrong with its type.
Parsed<std::string> option_text(const ValueShape& shape, const JsonValue& value);

}  // namespace ddprun
