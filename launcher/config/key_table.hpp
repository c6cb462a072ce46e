// Configuration keys that are not options, and the JSON values of keys that are options. Constant
// data and pure functions.
#pragma once

#include "launcher/cli/option_table.hpp"
#include "launcher/cli/option_values.hpp"
#include "launcher/config/json.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The sections of a file, which are top-level objects.
struct SectionName {
  ConfigSection section;
  std::string_view name;
  std::string_view help;
};
std::span<const SectionName> section_names();

/// A key that is not an option.
struct OwnKey {
  enum class Value { command, environment, text, port, texts };
  ConfigSection section;
  std::string_view name;
  Value value;
  std::string_view help;
};
std::span<const OwnKey> own_keys();

/// Returns the key with this name in this section, or nullptr.
const OwnKey* find_own_key(ConfigSection section, std::string_view name);

/// Returns text such as "a number or one of auto, cpu, gpu".
std::string describe_shape(const ValueShape& shape);

/// Returns the value as option text with references, or the problem with the value's type.
Parsed<std::string> option_text(const ValueShape& shape, const JsonValue& value);

}  // namespace ddprun
