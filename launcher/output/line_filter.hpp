// The lines of a stream that contain one of some texts. Pure.
#pragma once

#include "launcher/output/line_prefixer.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class LineFilter {
 public:
  /// Without texts no line matches.
  LineFilter(LinePrefix prefix, std::vector<std::string> texts)
      : prefixer_(std::move(prefix)), texts_(std::move(texts)) {}

  /// Takes more of the stream and returns the lines that are now complete and match, each with the
  /// prefix, which itself is not searched, and a newline. Lines are broken where the console's are.
  std::string take(std::string_view bytes, LinePrefixer::TimePoint now);

  /// The stream has ended: its last line counts without a newline, too.
  std::string finish(LinePrefixer::TimePoint now);

 private:
  std::string matching(std::string_view lines, LinePrefixer::TimePoint now);
  bool matches(std::string_view line) const;

  LinePrefixer lines_{""};  ///< cuts the stream
  LinePrefixer prefixer_;
  std::vector<std::string> texts_;
};

}  // namespace ddprun
