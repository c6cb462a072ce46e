#include "launcher/config/schema.hpp"

#include "launcher/config/config_file.hpp"
#include "launcher/config/json_build.hpp"
#include "launcher/config/key_table.hpp"
#include "launcher/config/ssh_settings.hpp"

namespace ddprun {

namespace {

JsonValue type(const char* name) {
  return json_object({{"type", json_text_value(name)}});
}

/// Schema of a text with a reference to a variable.
JsonValue reference() {
  return json_object({{"type", json_text_value("string")}, {"pattern", json_text_value("\\$")}});
}

JsonValue number(const char* kind, int least, int most) {
  auto schema = type(kind);
  add_member(schema, "minimum", json_number(std::to_string(least)));
  add_member(schema, "maximum", json_number(std::to_string(most)));
  return schema;
}

/// Schema of the range of numbers that the option accepts, found by bisection below 2^30.
JsonValue number_of(const OptionEntry& option) {
  const auto takes = [&](const std::string& text) {
    LaunchOptions scratch;
    return !option.apply(scratch, text);
  };
  const int least = takes("0") ? 0 : 1;
  int most = least;
  int beyond = 1 << 30;
  while (beyond - most > 1) {
    const int middle = most + (beyond - most) / 2;
    (takes(std::to_string(middle)) ? most : beyond) = middle;
  }
  return number(takes("1.5") ? "number" : "integer", least, most);
}

std::string help_of(const OptionEntry& option) {
  std::string help(option.help);
  if (!option.default_text.empty()) help += " Default: " + std::string(option.default_text) + ".";
  return help;
}

JsonValue schema_of(const OptionEntry& option) {
  const auto shape = shape_of(option);
  std::vector<JsonValue> alternatives;
  if (shape.takes_boolean) alternatives.push_back(type("boolean"));
  if (shape.takes_number) alternatives.push_back(number_of(option));
  if (!shape.words.empty()) {
    alternatives.push_back(json_object({{"enum", json_texts(shape.words)}}));
  }
  alternatives.push_back(shape.takes_text ? type("string") : reference());
  if (shape.list_separator != 0 && shape.map_separator == 0) alternatives.push_back(type("array"));
  if (shape.map_separator != 0) alternatives.push_back(type("object"));
  return json_object({{"description", json_text_value(help_of(option))},
                      {"anyOf", json_array(std::move(alternatives))}});
}

JsonValue schema_of(const OwnKey& key) {
  const auto description = json_text_value(std::string(key.help));
  if (key.value == OwnKey::Value::command) {
    auto items = json_object({{"type", json_texts({"string", "number"})}});
    return json_object({{"description", description},
                        {"type", json_text_value("array")},
                        {"minItems", json_number("1")},
                        {"items", std::move(items)}});
  }
  if (key.value == OwnKey::Value::text) {
    return json_object({{"description", description}, {"type", json_text_value("string")}});
  }
  if (key.value == OwnKey::Value::port) {
    auto schema = number("integer", 1, 65535);
    add_member(schema, "description", description);
    return schema;
  }
  if (key.value == OwnKey::Value::texts) {
    return json_object({{"description", description},
                        {"type", json_text_value("array")},
                        {"items", type("string")}});
  }
  auto values = json_object({{"type", json_texts({"string", "number", "null"})}});
  return json_object({{"description", description},
                      {"type", json_text_value("object")},
                      {"additionalProperties", std::move(values)}});
}

/// Schema of an object with these properties and the keys of the section.
JsonValue schema_of(ConfigSection section, const std::string& help, JsonValue properties) {
  for (const auto& key : own_keys()) {
    if (key.section == section) add_member(properties, std::string(key.name), schema_of(key));
  }
  for (const auto& option : option_table()) {
    if (option.section != section) continue;
    add_member(properties, std::string(option.key()), schema_of(option));
  }
  return json_object({{"description", json_text_value(help)},
                      {"type", json_text_value("object")},
                      {"additionalProperties", json_boolean(false)},
                      {"properties", std::move(properties)}});
}

JsonValue schema_of_nodes() {
  const auto text = [](const char* help) {
    return json_object(
        {{"description", json_text_value(help)}, {"type", json_text_value("string")}});
  };
  auto own =
      json_object({{"name", text("Name of the node, or of several: gpu[001-064,070].")},
                   {"address", text("Address by which other nodes reach it, in the same form.")}});
  auto entry =
      schema_of(ConfigSection::node, "One node, or several that are alike.", std::move(own));
  add_member(entry, "required", json_texts({"name"}));
  return json_object({{"description", json_text_value("The nodes, in the order of their ranks.")},
                      {"type", json_text_value("array")},
                      {"minItems", json_number("1")},
                      {"items", std::move(entry)}});
}

}  // namespace

std::string config_schema() {
  auto properties = json_object({{"$schema", type("string")}});
  add_member(properties, "version",
             json_object({{"const", json_number(std::to_string(kConfigVersion))}}));
  for (const auto& section : section_names()) {
    add_member(properties, std::string(section.name),
               schema_of(section.section, std::string(section.help), json_object({})));
  }
  add_member(properties, "nodes", schema_of_nodes());
  return pretty_json(
      json_object({{"$schema", json_text_value("https://json-schema.org/draft/2020-12/schema")},
                   {"title", json_text_value("Configuration file of ddprun")},
                   {"type", json_text_value("object")},
                   {"required", json_texts({"version"})},
                   {"additionalProperties", json_boolean(false)},
                   {"properties", std::move(properties)}}));
}

}  // namespace ddprun
