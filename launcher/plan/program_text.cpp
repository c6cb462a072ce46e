#include "launcher/plan/program_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace ddprun {

namespace {

constexpr std::string_view kVariable = "MASTER_PORT";

// Of a program that starts processes.
constexpr std::array<std::string_view, 2> kStarts = {"spawn", "Process("};

// Of a program that sets the port only without a launcher. Each name is in quotes of either kind.
constexpr std::array<std::string_view, 3> kLaunched = {"RANK", "LOCAL_RANK", "WORLD_SIZE"};
constexpr std::array<std::string_view, 5> kConditions = {
    "'MASTER_PORT' not in ", "\"MASTER_PORT\" not in ", "get('MASTER_PORT'", "get(\"MASTER_PORT\"",
    "is_torchelastic_launched"};

std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

bool take(std::string_view& text, std::string_view expected) {
  text = without_blanks(text);
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_quoted(std::string_view text, std::string_view name) {
  for (auto place = text.find(name); place != std::string_view::npos;
       place = text.find(name, place + 1)) {
    const auto quote = place == 0 ? ' ' : text[place - 1];
    const bool is_quoted = quote == '\'' || quote == '"';
    if (is_quoted && text.substr(place + name.size()).starts_with(quote)) return true;
  }
  return false;
}

/// Returns true if `environ["` or `environ['` precedes the place in its line, and no comment.
bool is_key_of_environment(std::string_view program, std::size_t place) {
  const auto begin = program.rfind('\n', place) + 1;  // 0 for the first line
  auto before = program.substr(begin, place - begin);
  if (contains(before, "#") || before.empty()) return false;
  before.remove_suffix(1);  // the quotation mark
  return before.ends_with("environ[");
}

bool is_assignment(std::string_view program, std::size_t place) {
  if (!is_key_of_environment(program, place)) return false;
  auto rest = program.substr(place + kVariable.size());
  return take(rest, program.substr(place - 1, 1)) && take(rest, "]") && take(rest, "=") &&
         !rest.starts_with("=");
}

}  // namespace

bool sets_master_port(std::string_view program) {
  const auto is_in = [program](std::string_view text) { return contains(program, text); };
  const auto is_quoted_in = [program](std::string_view name) {
    return contains_quoted(program, name);
  };
  if (std::none_of(kStarts.begin(), kStarts.end(), is_in) ||
      std::any_of(kConditions.begin(), kConditions.end(), is_in) ||
      std::any_of(kLaunched.begin(), kLaunched.end(), is_quoted_in)) {
    return false;
  }
  for (auto place = program.find(kVariable); place != std::string_view::npos;
       place = program.find(kVariable, place + 1)) {
    if (is_assignment(program, place)) return true;
  }
  return false;
}

}  // namespace ddprun
