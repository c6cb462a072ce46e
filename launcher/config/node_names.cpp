#include "launcher/config/node_names.hpp"

#include "rendezvous/base/problem.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ddprun {

namespace {

using Names = std::vector<std::string>;

std::optional<long> number_in(const std::string& text) {
  constexpr std::size_t kDigitsMax = 9;
  if (text.empty() || text.size() > kDigitsMax ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  long value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

ValueProblem too_many() {
  return {"stands for more than " + std::to_string(kNodeNamesMax) + " names"};
}

/// Expands "001-064" or "7". Leading zeros of the first number are kept.
Parsed<Names> expand_range(const std::string& range) {
  const auto ends = split(range, '-');
  const auto first = number_in(ends.front());
  const auto last = number_in(ends.back());
  if (ends.size() > 2 || !first || !last) {
    return ValueProblem{"has '" + range + "' in brackets, which is neither a number nor a range"};
  }
  if (*first > *last) return ValueProblem{"has a range whose start exceeds its end: " + range};
  const bool is_padded = ends.front().size() > 1 && ends.front()[0] == '0';
  if (is_padded && ends.front().size() != ends.back().size()) {
    return ValueProblem{"has a range whose ends differ in width: " + range};
  }
  if (*last - *first >= static_cast<long>(kNodeNamesMax)) return too_many();
  Names numbers;
  for (long number = *first; number <= *last; ++number) {
    auto text = std::to_string(number);
    if (is_padded) text.insert(0, ends.front().size() - text.size(), '0');
    numbers.push_back(std::move(text));
  }
  return numbers;
}

/// Expands the contents of one pair of brackets.
Parsed<Names> expand_brackets(std::string_view inside) {
  Names numbers;
  for (const auto& range : split(inside, ',')) {
    auto more = expand_range(range);
    if (std::holds_alternative<ValueProblem>(more)) return more;
    auto& added = std::get<Names>(more);
    if (numbers.size() + added.size() > kNodeNamesMax) return too_many();
    numbers.insert(numbers.end(), added.begin(), added.end());
  }
  return numbers;
}

/// Expands one name with any number of brackets.
Parsed<Names> expand_name(std::string_view name) {
  Names names = {""};
  while (!name.empty()) {
    const auto open = std::min(name.find('['), name.size());
    for (auto& begun : names) begun += name.substr(0, open);
    name.remove_prefix(open);
    if (name.empty()) break;
    const auto close = name.find(']');
    if (close == std::string_view::npos) return ValueProblem{"has an unmatched '['"};
    auto numbers = expand_brackets(name.substr(1, close - 1));
    if (std::holds_alternative<ValueProblem>(numbers)) return numbers;
    const auto& endings = std::get<Names>(numbers);
    if (names.size() * endings.size() > kNodeNamesMax) return too_many();
    Names longer;
    for (const auto& begun : names) {
      for (const auto& ending : endings) longer.push_back(begun + ending);
    }
    names = std::move(longer);
    name.remove_prefix(close + 1);
  }
  return names;
}

/// Splits at commas outside of brackets.
Names split_list(std::string_view text) {
  Names parts = {""};
  bool is_inside = false;
  for (const char letter : text) {
    if (letter == '[') is_inside = true;
    if (letter == ']') is_inside = false;
    if (letter == ',' && !is_inside) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

/// Returns true for characters of host names, user names and IPv6 addresses with zones. Others are
/// refused because ssh may pass a name to a shell (ProxyCommand).
bool may_be_in_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') ||
         std::string_view("-._:%").find(letter) != std::string_view::npos;
}

/// Returns why the name is invalid.
Problem problem_of_name(std::string_view name) {
  if (name.starts_with('-')) return "has a name that begins with '-'";
  const auto odd = std::find_if_not(name.begin(), name.end(), may_be_in_name);
  if (odd == name.end()) return std::nullopt;
  const auto rest = name.substr(static_cast<std::size_t>(odd - name.begin()));
  const auto bytes = std::max<std::size_t>(1, first_character(rest).bytes);
  return "has '" + printable(rest.substr(0, bytes)) +
         "' in a name; names consist of letters (A to Z), digits and - . _ : %";
}

}  // namespace

Parsed<std::vector<std::string>> expand_node_names(std::string_view text) {
  Names all;
  for (const auto& part : split_list(text)) {
    if (part.empty()) return ValueProblem{"has an empty name"};
    auto names = expand_name(part);
    if (std::holds_alternative<ValueProblem>(names)) return names;
    auto& added = std::get<Names>(names);
    if (all.size() + added.size() > kNodeNamesMax) return too_many();
    for (auto& name : added) {
      if (auto problem = problem_of_name(name)) return ValueProblem{std::move(*problem)};
      all.push_back(std::move(name));
    }
  }
  return all;
}

}  // namespace ddprun
