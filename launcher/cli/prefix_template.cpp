#include "launcher/cli/prefix_template.hpp"

#include "launcher/cli/option_values.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun {

namespace {

constexpr std::pair<std::string_view, PrefixField> kFields[] = {
    {"role_name", PrefixField::role_name}, {"local_rank", PrefixField::local_rank},
    {"rank", PrefixField::rank},           {"node_rank", PrefixField::node_rank},
    {"attempt", PrefixField::attempt},     {"stream", PrefixField::stream},
    {"hostname", PrefixField::hostname},   {"time", PrefixField::time},
};

constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz_";

std::optional<PrefixField> field_named(std::string_view name) {
  for (const auto& [known, field] : kFields) {
    if (known == name) return field;
  }
  return std::nullopt;
}

std::string unknown_field(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, field] : kFields) names.emplace_back(known);
  const auto nearest = nearest_word(name, names);
  if (!nearest.empty()) return "has no field '" + name + "'; did you mean ${" + nearest + "}?";
  return "has no field '" + name + "'; there are " + join(names, ", ");
}

void add_text(PrefixTemplate& into, std::string_view text) {
  auto& pieces = into.pieces;
  if (pieces.empty() || pieces.back().field != PrefixField::none) pieces.emplace_back();
  pieces.back().text += text;
}

/// Returns the name after a dollar sign at the start of `rest`, and the number of bytes of "$name"
/// or "${name}"; otherwise an empty name.
std::pair<std::string, std::size_t> name_at(std::string_view rest) {
  const bool has_brace = rest.substr(1, 1) == "{";
  const auto name = rest.substr(has_brace ? 2 : 1);
  const auto bytes =
      has_brace ? name.find('}') : std::min(name.find_first_not_of(kNameLetters), name.size());
  if (bytes == std::string_view::npos) return {};
  return {std::string(name.substr(0, bytes)), bytes + (has_brace ? 3 : 1)};
}

}  // namespace

PrefixTemplate default_prefix() {
  return {{{PrefixField::none, "["},
           {PrefixField::role_name, ""},
           {PrefixField::local_rank, ""},
           {PrefixField::none, "]:"}}};
}

Parsed<PrefixTemplate> parse_prefix_template(const std::string& text, UnknownFields unknown) {
  PrefixTemplate result;
  if (text == "none") return result;
  if (text.size() > kPrefixBytesMax) {
    return ValueProblem{"is longer than " + std::to_string(kPrefixBytesMax) + " bytes"};
  }
  if (text.find_first_of("\r\n") != std::string::npos) return ValueProblem{"has a line break"};
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto plain = rest.substr(0, rest.find('$'));
    if (!plain.empty()) add_text(result, plain);
    rest.remove_prefix(plain.size());
    if (rest.empty()) break;
    if (rest.substr(0, 2) == "$$") {
      add_text(result, "$");
      rest.remove_prefix(2);
      continue;
    }
    const auto [name, name_bytes] = name_at(rest);
    const auto bytes = name.empty() ? 1 : name_bytes;
    if (const auto field = field_named(name)) {
      result.pieces.push_back({*field, ""});
    } else if (unknown == UnknownFields::are_text) {
      add_text(result, rest.substr(0, bytes));
    } else if (name.empty()) {
      return ValueProblem{
          "has a '$' without a name; write ${rank} for a field, $$ for a dollar sign"};
    } else {
      return ValueProblem{unknown_field(name)};
    }
    rest.remove_prefix(bytes);
  }
  return result;
}

}  // namespace ddprun
