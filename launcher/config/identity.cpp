#include "launcher/config/identity.hpp"

#include "launcher/config/json.hpp"
#include "rendezvous/base/fnv1a.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace ddprun {

namespace {

using Kind = JsonValue::Kind;

std::string difference(const JsonValue& ours, const JsonValue& theirs, const std::string& path);

std::string said(const std::string& path, const std::string& here, const std::string& there) {
  return (path.empty() ? "the whole" : path) + ": " + here + " here, " + there + " there";
}

std::string difference_of_arrays(const JsonValue& ours, const JsonValue& theirs,
                                 const std::string& path) {
  const auto common = std::min(ours.elements.size(), theirs.elements.size());
  for (std::size_t i = 0; i < common; ++i) {
    auto found = difference(ours.elements[i], theirs.elements[i], element_path(path, i));
    if (!found.empty()) return found;
  }
  if (ours.elements.size() == theirs.elements.size()) return {};
  return said(path, std::to_string(ours.elements.size()) + " elements",
              std::to_string(theirs.elements.size()));
}

std::string difference_of_objects(const JsonValue& ours, const JsonValue& theirs,
                                  const std::string& path) {
  for (const auto& member : ours.members) {
    const auto here = member_path(path, member.key);
    const auto* other = theirs.find(member.key);
    if (other == nullptr) return said(here, describe_value(member.value), "nothing");
    auto found = difference(member.value, other->value, here);
    if (!found.empty()) return found;
  }
  for (const auto& member : theirs.members) {
    if (ours.find(member.key) != nullptr) continue;
    return said(member_path(path, member.key), "nothing", describe_value(member.value));
  }
  return {};
}

std::string difference(const JsonValue& ours, const JsonValue& theirs, const std::string& path) {
  if (ours.kind == theirs.kind && ours.is(Kind::array)) {
    return difference_of_arrays(ours, theirs, path);
  }
  if (ours.kind == theirs.kind && ours.is(Kind::object)) {
    return difference_of_objects(ours, theirs, path);
  }
  if (ours.kind == theirs.kind && ours.text == theirs.text) return {};
  return said(path, describe_value(ours), describe_value(theirs));
}

}  // namespace

std::string config_hash(std::string_view canonical_text) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(fnv1a(canonical_text)));
  return text;
}

std::string first_difference(std::string_view ours, std::string_view theirs) {
  if (ours == theirs) return {};
  const auto here = parse_json(ours);
  const auto there = parse_json(theirs);
  if (!here.problems.empty() || !there.problems.empty()) {
    return said("", here.problems.empty() ? "JSON" : "no JSON",
                there.problems.empty() ? "JSON" : "no JSON");
  }
  return difference(here.root, there.root, "");
}

}  // namespace ddprun
