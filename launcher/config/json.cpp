#include "launcher/config/json.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdio>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

bool is_plain_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '-' || letter == '$';
  });
}

/// Shortens a text for a message.
std::string shortened(const std::string& text) {
  constexpr std::size_t kBytesShown = 60;
  if (text.size() <= kBytesShown) return json_quoted(text);
  auto end = kBytesShown;
  while ((text[end] & 0xc0) == 0x80) --end;  // not within a character
  return json_quoted(text.substr(0, end)) + "...";
}

std::string escaped(char letter) {
  switch (letter) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (static_cast<unsigned char>(letter) >= 0x20) return std::string(1, letter);
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(letter));
  return text;
}

}  // namespace

const JsonMember* JsonValue::find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const JsonMember& member) { return member.key == key; });
  return found == members.end() ? nullptr : &*found;
}

std::string member_path(const std::string& path, std::string_view key) {
  if (!is_plain_key(key)) return path + "[" + shortened(std::string(key)) + "]";
  return (path.empty() ? "" : path + ".") + std::string(key);
}

std::string element_path(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

std::string describe_value(const JsonValue& value) {
  switch (value.kind) {
    case Kind::null:
    case Kind::boolean:
      return value.text;
    case Kind::number:
      return "the number " + value.text.substr(0, 40);
    case Kind::string:
      return "the string " + shortened(value.text);
    case Kind::array:
      return "an array";
    case Kind::object:
      return "an object";
  }
  return "";
}

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) quoted += escaped(letter);
  return quoted + "\"";
}

std::string canonical_json(const JsonValue& value) {
  std::vector<std::string> parts;
  if (value.is(Kind::string)) return json_quoted(value.text);
  if (value.is(Kind::array)) {
    for (const auto& element : value.elements) parts.push_back(canonical_json(element));
    return "[" + join(parts, ",") + "]";
  }
  if (!value.is(Kind::object)) return value.text;
  std::vector<const JsonMember*> members;
  for (const auto& member : value.members) members.push_back(&member);
  std::sort(members.begin(), members.end(),
            [](const JsonMember* a, const JsonMember* b) { return a->key < b->key; });
  for (const auto* member : members) {
    parts.push_back(json_quoted(member->key) + ":" + canonical_json(member->value));
  }
  return "{" + join(parts, ",") + "}";
}

}  // namespace ddprun
