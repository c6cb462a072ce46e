#include "launcher/config/interpolation.hpp"

#include <algorithm>
#include <optional>

namespace ddprun {

namespace {

/// The contents of "${...}".
struct Reference {
  std::string name;
  char kind = 0;  ///< '-' with a default, '?' with a message, 0 without either
  std::string word;
};

bool is_name(std::string_view name) {
  const bool begins_with_digit = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return !name.empty() && !begins_with_digit &&
         std::all_of(name.begin(), name.end(), [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                  (letter >= '0' && letter <= '9') || letter == '_' || letter == '.';
         });
}

Parsed<Reference> reference_in(std::string_view inside) {
  Reference reference;
  const auto colon = inside.find(':');
  reference.name = inside.substr(0, colon);
  if (!is_name(reference.name)) {
    return ValueProblem{"${" + std::string(inside) + "} does not begin with a variable's name"};
  }
  if (colon == std::string_view::npos) return reference;
  const auto rest = inside.substr(colon + 1);
  if (rest.empty() || (rest[0] != '-' && rest[0] != '?')) {
    return ValueProblem{"${" + std::string(inside) +
                        "} has neither :- with a default nor :? with a message"};
  }
  reference.kind = rest[0];
  reference.word = rest.substr(1);
  return reference;
}

Parsed<std::string> value_of(const Reference& reference, const EnvironmentLookup& lookup) {
  auto value = lookup(reference.name);
  if (reference.kind != 0 && value && value->empty()) value.reset();
  if (value) return *value;
  if (reference.kind == '-') return reference.word;
  if (reference.kind == '?') {
    return ValueProblem{reference.name + " is not set: " + reference.word};
  }
  return ValueProblem{reference.name + " is not set; ${" + reference.name +
                      ":-TEXT} has a default, $${" + reference.name + "} is not replaced"};
}

/// Replaces references from left to right by the results of `resolve`.
template <typename Resolve>
Parsed<std::string> replace_references(std::string_view text, const Resolve& resolve) {
  std::string result;
  while (!text.empty()) {
    const auto dollar = std::min(text.find('$'), text.size());
    result += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;
    std::size_t length = 2;
    Reference reference;
    if (text.substr(0, 2) == "${") {
      const auto end = text.find('}');
      if (end == std::string_view::npos) return ValueProblem{"has an unmatched '${'"};
      length = end + 1;
      auto read = reference_in(text.substr(2, end - 2));
      if (auto* problem = std::get_if<ValueProblem>(&read)) return *problem;
      reference = std::get<Reference>(read);
    } else if (text.substr(0, 2) != "$$") {
      return ValueProblem{"has a '$' that begins neither ${NAME} nor $$, a dollar sign"};
    }
    auto value = resolve(reference);
    if (std::holds_alternative<ValueProblem>(value)) return value;
    result += std::get<std::string>(value);
    if (result.size() > kInterpolatedBytesMax) {
      return ValueProblem{"becomes longer than " + std::to_string(kInterpolatedBytesMax) +
                          " bytes"};
    }
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

std::string with_doubled_dollars(const std::string& text) {
  std::string result;
  for (const char letter : text) result.append(letter == '$' ? 2 : 1, letter);
  return result;
}

bool has_reference(std::string_view text) {
  return text.find('$') != std::string_view::npos;
}

Parsed<std::string> interpolate(std::string_view text, const EnvironmentLookup& lookup,
                                TextUse use) {
  const bool is_argument = use == TextUse::program_argument;
  return replace_references(text, [&](const Reference& reference) -> Parsed<std::string> {
    // An empty name is $$.
    if (reference.name.empty()) return std::string(is_argument ? "$$" : "$");
    if (is_argument && reference.name == "local_rank") return std::string("${local_rank}");
    auto value = value_of(reference, lookup);
    if (!is_argument || std::holds_alternative<ValueProblem>(value)) return value;
    return with_doubled_dollars(std::get<std::string>(value));
  });
}

Problem reference_problem(std::string_view text) {
  const auto checked = replace_references(
      text, [](const Reference&) -> Parsed<std::string> { return std::string(); });
  const auto* problem = std::get_if<ValueProblem>(&checked);
  return problem == nullptr ? Problem() : problem->text;
}

}  // namespace ddprun
