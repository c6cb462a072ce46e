#include "launcher/config/identity.hpp"

#include "rendezvous/base/fnv1a.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

// An accidental difference is missed with a probability of 1 in 65,536. 16 bits do not reveal a
// text, but they reveal booleans and small numbers.
constexpr std::uint64_t kChecksumMask = 0xffff;

JsonValue outlined(const JsonValue& value) {
  JsonValue outline{.kind = value.kind};
  for (const auto& element : value.elements) outline.elements.push_back(outlined(element));
  for (const auto& member : value.members) {
    if (member.key == "environment") continue;
    outline.members.push_back({.key = member.key, .at = {}, .value = outlined(member.value)});
  }
  if (value.is(Kind::array) || value.is(Kind::object)) return outline;
  outline.kind = Kind::number;
  outline.text = std::to_string(fnv1a(canonical_json(value)) & kChecksumMask);
  return outline;
}

using Path = std::optional<std::string>;

Path difference(const JsonValue& ours, const JsonValue& theirs, const std::string& path);

Path difference_of_arrays(const JsonValue& ours, const JsonValue& theirs, const std::string& path) {
  const auto common = std::min(ours.elements.size(), theirs.elements.size());
  for (std::size_t i = 0; i < common; ++i) {
    auto found = difference(ours.elements[i], theirs.elements[i], element_path(path, i));
    if (found) return found;
  }
  return ours.elements.size() == theirs.elements.size() ? Path() : path;
}

Path difference_of_objects(const JsonValue& ours, const JsonValue& theirs,
                           const std::string& path) {
  for (const auto& member : ours.members) {
    const auto* other = theirs.find(member.key);
    const auto here = member_path(path, member.key);
    auto found = other == nullptr ? Path(here) : difference(member.value, other->value, here);
    if (found) return found;
  }
  for (const auto& member : theirs.members) {
    if (ours.find(member.key) == nullptr) return member_path(path, member.key);
  }
  return {};
}

Path difference(const JsonValue& ours, const JsonValue& theirs, const std::string& path) {
  if (ours.kind != theirs.kind) return path;
  if (ours.is(Kind::array)) return difference_of_arrays(ours, theirs, path);
  if (ours.is(Kind::object)) return difference_of_objects(ours, theirs, path);
  return ours.text == theirs.text ? Path() : path;
}

}  // namespace

std::string config_hash(std::string_view canonical_text) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(fnv1a(canonical_text)));
  return text;
}

std::string config_outline(const JsonValue& root) {
  auto text = canonical_json(outlined(root));
  return text.size() <= kOutlineBytesMax ? text : std::string();
}

std::string first_difference(std::string_view ours, std::string_view theirs) {
  if (ours == theirs) return {};
  const auto here = parse_json(ours);
  const auto there = parse_json(theirs);
  const bool are_json = here.problems.empty() && there.problems.empty();
  const auto path = are_json ? difference(here.root, there.root, "") : Path("");
  return path && path->empty() ? "the whole" : path.value_or("");
}

}  // namespace ddprun
