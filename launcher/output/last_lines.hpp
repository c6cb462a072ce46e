// Keeps the last lines of a stream for reports. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class LastLines {
 public:
  static constexpr std::size_t kLinesMax = 20;         ///< enough for the end of a traceback
  static constexpr std::size_t kBytesMax = 16U << 10;  ///< of all lines together

  void take(std::string_view bytes);

  /// Returns the lines, oldest first, without newlines, including an incomplete last line. Of a
  /// line that was rewritten after a carriage return, only the last state. Omits the C frames and
  /// modules that Python lists after a fatal error. If bytes were dropped, the first line may lack
  /// its beginning.
  std::vector<std::string> lines() const;

 private:
  std::string end_;
};

}  // namespace ddprun
