// printf into a string.
#pragma once

#include <cstdio>
#include <string>

namespace trainer {

/// Returns the formatted text, truncated to 511 characters.
template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[512] = {};
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace trainer
