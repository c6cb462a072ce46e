// printf into a string.
#pragma once

#include <cstdio>
#include <string>

namespace trainer {

/// At most 511 characters; more are cut off.
template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[512] = {};
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace trainer
