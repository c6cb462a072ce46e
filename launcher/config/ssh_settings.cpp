#include "launcher/config/ssh_settings.hpp"

#include "launcher/cli/option_values.hpp"
#include "launcher/config/interpolation.hpp"
#include "rendezvous/base/problem.hpp"

#include <optional>
#include <utility>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

Parsed<int> parse_port(const std::string& text) {
  return parse_integer(text, 1, 65535);
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

int port_of(const JsonValue& root) {
  const auto* value = find_key(root, "port");
  return value == nullptr ? 0 : std::get<int>(parse_port(value->text));
}

std::vector<std::string> texts_of(const JsonValue& root, const char* key) {
  std::vector<std::string> texts;
  const auto* value = find_key(root, key);
  if (value == nullptr) return texts;
  for (const auto& element : value->elements) texts.push_back(element.text);
  return texts;
}

Problem text_problem(const JsonValue& value) {
  if (!value.is(Kind::string)) return "expected a string, found " + describe_value(value);
  if (value.text.empty()) return "is empty";
  // A line break would start another command.
  if (value.text.find('\n') != std::string::npos) return "has a line break";
  return reference_problem(value.text);
}

Problem port_problem(const JsonValue& value) {
  if (!value.is(Kind::number)) return "expected a number, found " + describe_value(value);
  const auto parsed = parse_port(value.text);
  const auto* problem = std::get_if<ValueProblem>(&parsed);
  return problem == nullptr ? std::nullopt : Problem(value.text + " " + problem->text);
}

}  // namespace

void check_ssh_key(const OwnKey& key, const JsonMember& member, const std::string& path,
                   std::vector<TextProblem>& problems) {
  const auto& value = member.value;
  const auto check = [&](const JsonValue& at, const std::string& where, const Problem& problem) {
    if (problem) problems.push_back({at.at, where, *problem});
  };
  if (key.value == OwnKey::Value::text) {
    check(value, path, text_problem(value));
  } else if (key.value == OwnKey::Value::port) {
    check(value, path, port_problem(value));
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
          .port = port_of(root),
          .options = texts_of(root, "options"),
          .program = text_of(root, "program"),
          .forward_variables = texts_of(root, "forward_variables")};
}

}  // namespace ddprun
