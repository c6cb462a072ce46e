#include "launcher/plan/program_text.hpp"

#include <cstddef>

namespace ddprun {

namespace {

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

bool is_in_comment(std::string_view program, std::size_t place) {
  const auto line = program.rfind('\n', place) + 1;  // 0 for the first line
  return without_blanks(program.substr(line)).starts_with("#");
}

}  // namespace

bool sets_master_port(std::string_view program) {
  for (const auto* condition : {"'MASTER_PORT' not in ", "\"MASTER_PORT\" not in "})
    if (program.find(condition) != std::string_view::npos) return false;
  constexpr std::string_view kVariable = "MASTER_PORT";
  for (auto place = program.find(kVariable); place != std::string_view::npos;
       place = program.find(kVariable, place + 1)) {
    if (place == 0 || is_in_comment(program, place)) continue;
    const auto quote = program.substr(place - 1, 1);
    auto rest = program.substr(place + kVariable.size());
    const bool is_quoted = quote == "'" || quote == "\"";
    if (is_quoted && take(rest, quote) && take(rest, "]") && take(rest, "=") &&
        !rest.starts_with("=")) {
      return true;
    }
  }
  return false;
}

}  // namespace ddprun
