// Selects the lines of a stream that contain any of several texts. Pure.
#pragma once

#include "launcher/output/line_prefixer.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class LineFilter {
 public:
  /// If `texts` is empty, no line matches.
  LineFilter(LinePrefix prefix, std::vector<std::string> texts)
      : prefixer_(std::move(prefix)), texts_(std::move(texts)) {}

  /// Appends `bytes` and returns the completed lines that match, each with prefix and newline. Does
  /// not search the prefix. Splits long lines like on the console.
  std::string take(std::string_view bytes, LinePrefixer::TimePoint now);

  /// Ends the stream and returns its last line if it matches, even without a newline.
  std::string finish(LinePrefixer::TimePoint now);

 private:
  std::string matching(std::string_view lines, LinePrefixer::TimePoint now);
  bool matches(std::string_view line) const;

  LinePrefixer lines_{""};  ///< splits the stream
  LinePrefixer prefixer_;
  std::vector<std::string> texts_;
};

}  // namespace ddprun
