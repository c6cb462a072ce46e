#include "launcher/config/key_table.hpp"

#include "launcher/config/interpolation.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <iterator>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;
using Section = ConfigSection;

constexpr SectionName kSections[] = {
    {Section::job, "job", "Program and how it is run, the same on all nodes."},
    {Section::rendezvous, "rendezvous", "Rendezvous of the nodes."},
    {Section::node, "defaults",
     "Settings of every node, unless its entry in nodes overrides them."},
    {Section::restart, "restart", "Behaviour after a failure."},
    {Section::signals, "signals", "Shutdown of workers."},
    {Section::logs, "logs", "Output of workers and record of events."},
    {Section::security, "security", "Authentication of nodes."},
    {Section::ssh, "ssh", "Connections of --ssh to the nodes."},
};

constexpr OwnKey kOwnKeys[] = {
    {Section::job, "command", OwnKey::Value::command,
     "Program and arguments, run without a shell. A program on the command line replaces both."},
    {Section::node, "environment", OwnKey::Value::environment,
     "Environment variables of the workers: a string or number sets the variable, null removes the "
     "variable."},
    {Section::ssh, "user", OwnKey::Value::text,
     "User name on the nodes. Default: ssh's configuration."},
    {Section::ssh, "port", OwnKey::Value::port,
     "Port of sshd on the nodes. Default: ssh's configuration."},
    {Section::ssh, "options", OwnKey::Value::texts, "Further arguments of ssh."},
    {Section::ssh, "program", OwnKey::Value::text,
     "Path of ddprun on the nodes. Default: the local path."},
    {Section::ssh, "forward_variables", OwnKey::Value::texts,
     "Names of variables passed to ddprun and the workers on the nodes; a final * matches any "
     "text."},
};

/// A scalar within an array or object, as part of an option's text.
Parsed<std::string> part_text(const JsonValue& value, std::string_view separators) {
  if (value.is(Kind::number) || value.is(Kind::boolean)) return value.text;
  if (!value.is(Kind::string)) {
    return ValueProblem{"expected a string or a number, found " + describe_value(value)};
  }
  if (value.text.find_first_of(separators) != std::string::npos) {
    return ValueProblem{describe_value(value) + " contains a separator, one of \"" +
                        std::string(separators) + "\""};
  }
  return value.text;
}

Parsed<std::string> joined_elements(char separator, const JsonValue& array) {
  std::vector<std::string> parts;
  for (const auto& element : array.elements) {
    auto part = part_text(element, std::string(1, separator));
    if (std::holds_alternative<ValueProblem>(part)) return part;
    parts.push_back(std::get<std::string>(part));
  }
  return join(parts, std::string(1, separator));
}

Parsed<std::string> joined_members(const ValueShape& shape, const JsonValue& object) {
  std::vector<std::string> parts;
  for (const auto& member : object.members) {
    auto part = part_text(member.value, std::string(1, shape.list_separator));
    if (std::holds_alternative<ValueProblem>(part)) return part;
    parts.push_back(member.key + shape.map_separator + std::get<std::string>(part));
  }
  return join(parts, std::string(1, shape.list_separator));
}

}  // namespace

std::span<const SectionName> section_names() {
  return kSections;
}

std::span<const OwnKey> own_keys() {
  return kOwnKeys;
}

const OwnKey* find_own_key(ConfigSection section, std::string_view name) {
  const auto found = std::find_if(std::begin(kOwnKeys), std::end(kOwnKeys), [&](const OwnKey& key) {
    return key.section == section && key.name == name;
  });
  return found == std::end(kOwnKeys) ? nullptr : found;
}

std::string describe_shape(const ValueShape& shape) {
  std::vector<std::string> parts;
  if (shape.takes_boolean) parts.emplace_back("true or false");
  if (shape.takes_number) parts.emplace_back("a number");
  if (shape.takes_text) {
    parts.emplace_back("a string");
  } else if (!shape.words.empty()) {
    parts.push_back("one of " + join(shape.words, ", "));
  }
  if (shape.list_separator != 0 && shape.map_separator == 0) parts.emplace_back("an array");
  if (shape.map_separator != 0) parts.emplace_back("an object");
  return join(parts, " or ");
}

Parsed<std::string> option_text(const ValueShape& shape, const JsonValue& value) {
  const bool is_expected =
      (value.is(Kind::boolean) && shape.takes_boolean) ||
      (value.is(Kind::number) && shape.takes_number) ||
      (value.is(Kind::string) &&
       (shape.takes_text || !shape.words.empty() || has_reference(value.text))) ||
      (value.is(Kind::array) && shape.list_separator != 0 && shape.map_separator == 0) ||
      (value.is(Kind::object) && shape.map_separator != 0);
  if (!is_expected) {
    return ValueProblem{"expected " + describe_shape(shape) + ", found " + describe_value(value)};
  }
  if (value.is(Kind::boolean)) return std::string(value.text == "true" ? "1" : "0");
  if (value.is(Kind::array)) return joined_elements(shape.list_separator, value);
  if (value.is(Kind::object)) return joined_members(shape, value);
  return value.text;
}

}  // namespace ddprun
