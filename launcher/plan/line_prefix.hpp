// The prefix of one stream of one worker: a template in which all fields except the time are filled
// in. Pure functions and plain data.
#pragma once

#include "launcher/cli/prefix_template.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

struct LinePrefix {
  LinePrefix() = default;
  // Implicit, since most prefixes are text.
  LinePrefix(std::string text) : parts{std::move(text)} {}  // NOLINT(google-explicit-constructor)
  LinePrefix(const char* text) : parts{text} {}             // NOLINT(google-explicit-constructor)

  /// The text, split where the start time of a line is inserted. Has at least one part.
  std::vector<std::string> parts{""};

  bool operator==(const LinePrefix&) const = default;
};

struct PrefixValues {
  std::string_view role_name;
  int local_rank = 0;
  int rank = 0;
  std::string_view hostname{};
  int node_rank = 0;
  int attempt = 0;
  std::string_view stream;
};

/// Returns the width of the prefix in terminal columns, if all characters are narrow.
int columns_of(const LinePrefix& prefix);

LinePrefix fill_in(const PrefixTemplate& prefix, const PrefixValues& values);

}  // namespace ddprun
