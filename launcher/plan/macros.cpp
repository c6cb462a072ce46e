#include "launcher/plan/macros.hpp"

namespace ddprun {

namespace {

constexpr std::string_view kName = "local_rank";

bool continues_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_';
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

/// Returns the number of bytes of the macro at the start of `text` (which begins with '$'), or 0.
std::size_t macro_bytes(std::string_view text) {
  const auto name = text.substr(1);
  if (starts_with(name, "{local_rank}")) return 1 + kName.size() + 2;
  const bool is_whole = name.size() <= kName.size() || !continues_name(name[kName.size()]);
  return starts_with(name, kName) && is_whole ? 1 + kName.size() : 0;
}

}  // namespace

std::string expand_macros(std::string_view text, int local_rank) {
  std::string result;
  while (!text.empty()) {
    if (starts_with(text, "$$")) {
      result += '$';
      text.remove_prefix(2);
    } else if (const auto bytes = text[0] == '$' ? macro_bytes(text) : 0; bytes > 0) {
      result += std::to_string(local_rank);
      text.remove_prefix(bytes);
    } else {
      result += text[0];
      text.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace ddprun
