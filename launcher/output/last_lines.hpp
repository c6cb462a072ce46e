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
  static constexpr std::size_t kBytesMax = 16U << 10;  ///< total size of all lines

  void take(std::string_view bytes);

  /// Returns the lines, oldest first, without newlines, including an incomplete last line. Keeps
  /// only the last state of a line that was rewritten after a carriage return. Omits the C frames
  /// and modules that Python lists after a fatal error, and empty lines at the end. If bytes were
  /// dropped, the first line may lack its beginning.
  std::vector<std::string> lines() const;

 private:
  std::string end_;
};

}  // namespace ddprun
