#include "launcher/config/ssh_settings.hpp"

#include "launcher/cli/option_values.hpp"
#include "launcher/config/interpolation.hpp"

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

Parsed<int> parse_number(const std::string& key, const std::string& text) {
  return key == "port" ? parse_integer(text, 1, 65535) : parse_integer(text, 1, kSshFanOutMax);
}

const JsonValue* find_key(const JsonValue& root, const char* key) {
  const auto* section = root.find("ssh");
  const auto* member = section == nullptr ? nullptr : section->value.find(key);
  return member == nullptr ? nullptr : &member->value;
}

std::string text_of(const JsonValue& root, const char* key) {
  const auto* value = find_key(root, key);
  return value == nullptr ? "" : value->text;
}

int number_of(const JsonValue& root, const char* key, int otherwise) {
  const auto* value = find_key(root, key);
  return value == nullptr ? otherwise : std::get<int>(parse_number(key, value->text));
}

std::vector<std::string> texts_of(const JsonValue& root, const char* key) {
  std::vector<std::string> texts;
  const auto* value = find_key(root, key);
  if (value == nullptr) return texts;
  for (const auto& element : value->elements) texts.push_back(element.text);
  return texts;
}

/// What is wrong with one text; empty if nothing is.
std::string text_problem(const JsonValue& value) {
  if (!value.is(Kind::string)) return "expected a text, found " + describe_value(value);
  if (value.text.empty()) return "is empty";
  // An option must not come from where an argument is expected, nor a second line of a command.
  if (value.text.find('\n') != std::string::npos) return "has a line break";
  return reference_problem(value.text);
}

std::string number_problem(const std::string& key, const JsonValue& value) {
  if (!value.is(Kind::number)) return "expected a number, found " + describe_value(value);
  const auto parsed = parse_number(key, value.text);
  const auto* problem = std::get_if<ValueProblem>(&parsed);
  return problem == nullptr ? "" : value.text + " " + problem->text;
}

}  // namespace

void check_ssh_key(const OwnKey& key, const JsonMember& member, const std::string& path,
                   std::vector<TextProblem>& problems) {
  const auto& value = member.value;
  const auto check = [&](const JsonValue& at, const std::string& where, const std::string& text) {
    if (!text.empty()) problems.push_back({at.at, where, text});
  };
  if (key.value == OwnKey::Value::text) {
    check(value, path, text_problem(value));
  } else if (key.value == OwnKey::Value::number) {
    check(value, path, number_problem(member.key, value));
  } else if (!value.is(Kind::array)) {
    check(value, path, "expected an array, found " + describe_value(value));
  } else {
    for (std::size_t i = 0; i < value.elements.size(); ++i) {
      check(value.elements[i], element_path(path, i), text_problem(value.elements[i]));
    }
  }
}

SshSettings read_ssh_settings(const JsonValue& root) {
  return {.user = text_of(root, "user"),
          .port = number_of(root, "port", 0),
          .options = texts_of(root, "options"),
          .fan_out = number_of(root, "fan_out", kSshFanOut),
          .program = text_of(root, "program"),
          .forward_variables = texts_of(root, "forward_variables")};
}

}  // namespace ddprun
