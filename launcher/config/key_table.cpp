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
    {Section::job, "job", "What runs: the same on all nodes."},
    {Section::rendezvous, "rendezvous", "How the nodes find each other."},
    {Section::node, "defaults", "What holds for each node whose entry does not say otherwise."},
    {Section::restart, "restart", "What happens after a failure."},
    {Section::signals, "signals", "How the workers are asked to stop."},
    {Section::logs, "logs", "Where the output of the workers and the record of events go."},
    {Section::security, "security", "Who may take part in a run of several nodes."},
    {Section::ssh, "ssh", "How --ssh reaches the nodes."},
};

constexpr OwnKey kOwnKeys[] = {
    {Section::job, "command", OwnKey::Value::command,
     "Program and arguments, run without a shell. A program on the command line replaces both."},
    {Section::node, "environment", OwnKey::Value::environment,
     "Variables of the workers: a text or a number sets one, null removes one."},
    {Section::ssh, "user", OwnKey::Value::text,
     "Who to be there; else as ssh's configuration says."},
    {Section::ssh, "port", OwnKey::Value::port, "Of sshd; else as ssh's configuration says."},
    {Section::ssh, "options", OwnKey::Value::texts, "Further arguments of ssh."},
    {Section::ssh, "program", OwnKey::Value::text, "Path of ddprun there. Default: as here."},
    {Section::ssh, "forward_variables", OwnKey::Value::texts,
     "Names of variables that ddprun and the workers get from here; a * at the end stands for "
     "anything."},
};

/// Where an option's subject is not that of its group in the help.
struct Placement {
  std::string_view option;
  Section section;
};

constexpr Placement kPlacements[] = {
    {"module", Section::job},
    {"no_python", Section::job},
    {"run_path", Section::job},
    {"role", Section::job},
    {"start_method", Section::job},
    {"use_env", Section::job},
    {"pass_local_rank", Section::job},
    {"share_gpu", Section::job},
    {"preflight", Section::job},
    {"rdzv_id", Section::job},
    {"local_addr", Section::node},
    {"stdin", Section::job},
    {"agent_store", Section::rendezvous},
    {"node_rank", Section::none},
    {"exit_code", Section::restart},
    {"restart_window", Section::restart},
    {"signals_to_handle", Section::signals},
    {"events", Section::logs},
    {"shutdown_timeout", Section::signals},
    {"stacks", Section::signals},
    {"prefix", Section::logs},
    {"log_line_prefix_template", Section::logs},
    {"ranks_filter", Section::logs},
    {"secret_file", Section::security},
    {"security", Section::security},
    {"dry_run", Section::none},
    {"ssh", Section::none},
    {"config", Section::none},
    {"node_name", Section::none},
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool is_small_letter(char letter) {
  return letter >= 'a' && letter <= 'z';
}

/// One alternative of the name of a value: "N", "auto", "SIGNAL,...", "KEY=VALUE,...".
void add_alternative(ValueShape& shape, const std::string& name) {
  if (ends_with(name, "...")) {
    shape.takes_text = true;
    shape.list_separator = name[name.size() - 4];
    for (const char separator : {'=', ':'}) {
      if (name.find(separator) != std::string::npos) shape.map_separator = separator;
    }
  } else if (name == "N" || name == "SECONDS" || name == "PORT" || name == "0-3" ||
             name == "RANK") {
    shape.takes_number = true;
  } else if (is_small_letter(name[0])) {
    shape.words.push_back(name);
  } else {
    shape.takes_text = true;
  }
}

/// A scalar within an array or object, as part of an option's text.
Parsed<std::string> part_text(const JsonValue& value, std::string_view separators) {
  if (value.is(Kind::number) || value.is(Kind::boolean)) return value.text;
  if (!value.is(Kind::string)) {
    return ValueProblem{"expected a text or a number, found " + describe_value(value)};
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

ConfigSection section_of(const OptionEntry& entry) {
  for (const auto& placement : kPlacements) {
    if (placement.option == entry.name) return placement.section;
  }
  switch (entry.group) {
    case OptionGroup::workers:
    case OptionGroup::own:
      return Section::node;
    case OptionGroup::failure:
      return Section::restart;
    case OptionGroup::output:
      return Section::logs;
    case OptionGroup::nodes:
      return Section::rendezvous;
    case OptionGroup::information:
      break;
  }
  return Section::none;
}

std::string_view key_of(const OptionEntry& entry) {
  if (entry.name == "security") return "mode";
  return entry.name == "restart_window" ? "window" : entry.name;
}

ValueShape shape_of(const OptionEntry& entry) {
  ValueShape shape;
  if (entry.is_flag()) {
    shape.takes_boolean = true;
    return shape;
  }
  for (const auto& alternative : split(entry.value_name, '|')) add_alternative(shape, alternative);
  return shape;
}

std::string describe_shape(const ValueShape& shape) {
  std::vector<std::string> parts;
  if (shape.takes_boolean) parts.emplace_back("true or false");
  if (shape.takes_number) parts.emplace_back("a number");
  if (shape.takes_text) {
    parts.emplace_back("a text");
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
