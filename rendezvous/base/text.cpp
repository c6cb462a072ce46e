#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace ddprun {

namespace {

int width_of(std::string_view text) {
  // Continuation bytes of UTF-8 (10xxxxxx) take no column of their own.
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; }));
}

void wrap_line(std::string_view line, int columns, std::vector<std::string>& lines) {
  const auto indent = std::min(line.find_first_not_of(' '), line.size());
  std::string current(line.substr(0, indent));
  bool is_empty = true;
  for (auto rest = line.substr(indent); !rest.empty();) {
    const auto gap = std::min(rest.find_first_not_of(' '), rest.size());
    const auto word = rest.substr(gap, std::min(rest.find(' ', gap), rest.size()) - gap);
    if (!is_empty && width_of(current) + static_cast<int>(gap) + width_of(word) > columns) {
      lines.push_back(current);
      current = std::string(indent, ' ');
    } else {
      current += rest.substr(0, gap);
    }
    current += word;
    is_empty = false;
    rest.remove_prefix(gap + word.size());
  }
  lines.push_back(current);
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
int edit_distance(std::string_view from, std::string_view to) {
  std::vector<int> before_last, last(to.size() + 1), current(to.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const int replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      current[j] = std::min({replaced, last[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
    before_last = last;
    last = current;
  }
  return last[to.size()];
}

}  // namespace

std::vector<std::string> wrap_text(std::string_view text, int columns) {
  std::vector<std::string> lines;
  for (const auto& line : split(text, '\n')) wrap_line(line, columns, lines);
  return lines;
}

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto first = byte(0);
  if (first < 0x80) return {.bytes = std::min<std::size_t>(1, text.size()), .code = first};
  if (first < 0xc2 || first > 0xf4) return {};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  char32_t code = first & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = (code << 6U) | (byte(i) & 0x3fU);
  }
  const bool is_overlong = code < (bytes == 4 ? 0x10000U : bytes == 3 ? 0x800U : 0x80U);
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (is_overlong || is_surrogate || code > 0x10ffff) return {};
  return {.bytes = bytes, .code = code};
}

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto [bytes, code] = first_character(text);
    const auto taken = text.substr(0, std::max<std::size_t>(1, bytes));
    text.remove_prefix(taken.size());
    if (bytes > 0 && (!is_control(code) || code == '\t' || code == '\n')) {
      result += taken;
      continue;
    }
    for (const char byte : taken) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(byte));
      result += escaped;
    }
  }
  return result;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string result;
  for (const auto& word : words) {
    if (&word != &words.front()) result += separator;
    result += word;
  }
  return result;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::size_t find_begun(std::string_view text, std::string_view word) {
  const auto found = text.find(word);
  if (found != std::string_view::npos) return found;
  auto size = std::min(text.size(), word.size());
  while (!word.starts_with(text.substr(text.size() - size))) --size;
  return text.size() - size;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  // Long enough for every option's name; an argument of megabytes must not cost its square.
  constexpr std::size_t kWordMax = 64;
  if (word.size() > kWordMax) return {};
  // A third of the letters: a slip or two, not another word.
  int least = std::max(1, static_cast<int>(word.size()) / 3) + 1;
  std::string nearest;
  for (const auto& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace ddprun
