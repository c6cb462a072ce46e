#include "launcher/config/json_build.hpp"

#include "rendezvous/base/text.hpp"

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

/// Returns the value in one line.
std::string one_line(const JsonValue& value) {
  std::vector<std::string> parts;
  for (const auto& element : value.elements) parts.push_back(one_line(element));
  for (const auto& member : value.members) {
    parts.push_back(json_quoted(member.key) + ": " + one_line(member.value));
  }
  if (value.is(Kind::array)) return "[" + join(parts, ", ") + "]";
  if (value.is(Kind::object)) return "{" + join(parts, ", ") + "}";
  return value.is(Kind::string) ? json_quoted(value.text) : value.text;
}

/// `before` is the number of columns used in the first line.
std::string pretty(const JsonValue& value, std::size_t indent, std::size_t before) {
  constexpr std::size_t kColumns = 100;
  auto line = one_line(value);
  if (before + line.size() <= kColumns && (indent > 0 || !value.is(Kind::object))) return line;
  if (!value.is(Kind::array) && !value.is(Kind::object)) return line;
  const std::string inner(indent + 2, ' ');
  std::vector<std::string> parts;
  for (const auto& element : value.elements) {
    parts.push_back(inner + pretty(element, indent + 2, inner.size()));
  }
  for (const auto& member : value.members) {
    const auto key = inner + json_quoted(member.key) + ": ";
    parts.push_back(key + pretty(member.value, indent + 2, key.size()));
  }
  const bool is_array = value.is(Kind::array);
  return (is_array ? "[\n" : "{\n") + join(parts, ",\n") + "\n" + std::string(indent, ' ') +
         (is_array ? "]" : "}");
}

}  // namespace

JsonValue json_text_value(std::string text) {
  return {.kind = Kind::string, .text = std::move(text)};
}

JsonValue json_number(const std::string& digits) {
  return {.kind = Kind::number, .text = digits};
}

JsonValue json_boolean(bool is_true) {
  return {.kind = Kind::boolean, .text = is_true ? "true" : "false"};
}

JsonValue json_array(std::vector<JsonValue> elements) {
  return {.kind = Kind::array, .elements = std::move(elements)};
}

JsonValue json_texts(const std::vector<std::string>& texts) {
  std::vector<JsonValue> elements;
  for (const auto& text : texts) elements.push_back(json_text_value(text));
  return json_array(std::move(elements));
}

JsonValue json_object(std::vector<std::pair<std::string, JsonValue>> members) {
  JsonValue object{.kind = Kind::object};
  for (auto& [key, value] : members) add_member(object, std::move(key), std::move(value));
  return object;
}

void add_member(JsonValue& object, std::string key, JsonValue value) {
  object.members.push_back({std::move(key), {}, std::move(value)});
}

std::string pretty_json(const JsonValue& value) {
  return pretty(value, 0, 0) + "\n";
}

}  // namespace ddprun
