// The end of a stream, for reports. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class LastLines {
 public:
  static constexpr std::size_t kLinesMax = 20;         ///< a traceback's end fits
  static constexpr std::size_t kBytesMax = 16U << 10;  ///< of all lines together

  void take(std::string_view bytes);

  /// Oldest first, without newlines; a last line without a newline counts. Of a line that was
  /// written again after a carriage return only the last state. Without the C frames and modules
  /// that Python lists after a fatal error. If bytes have been dropped the first line may lack
  /// its beginning.
  std::vector<std::string> lines() const;

 private:
  std::string end_;
};

}  // namespace ddprun
