// Cuts a stream of bytes into lines for a console and puts a prefix before each. Pure: bytes in,
// text out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A line longer than this is broken: a bound for the memory of one stream, and far beyond what a
/// person reads.
inline constexpr std::size_t kConsoleLineBytesMax = 64U << 10;

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Takes more of the stream and returns the lines that are now complete, each with the prefix
  /// and a newline. A carriage return within a line is followed by the prefix again, as it sends a
  /// terminal back to where the prefix stands.
  std::string take(std::string_view bytes);

  /// True if part of a line is waiting for its end.
  bool has_partial_line() const { return !partial_.empty(); }

  /// Returns the partial line as it stands, without a newline; what follows continues it. To be
  /// called when its end does not come: it may be a prompt or a progress bar.
  std::string flush();

  /// Somebody else wrote to the console since flush(): the line cannot be continued and the next
  /// bytes begin a new one.
  void interrupt() {
    is_inside_line_ = false;
    needs_prefix_ = true;
  }

  /// True after flush(), until the line ends.
  bool is_inside_line() const { return is_inside_line_; }

 private:
  void append_segment(std::string& out, std::string_view segment);

  std::string prefix_;
  std::string partial_;  ///< at most kConsoleLineBytesMax
  bool is_inside_line_ = false;
  bool needs_prefix_ = true;
};

/// The end of a stream, for reports.
class LastLines {
 public:
  static constexpr std::size_t kLinesMax = 20;         ///< a traceback's end fits
  static constexpr std::size_t kBytesMax = 16U << 10;  ///< of all lines together

  void take(std::string_view bytes);

  /// Oldest first, without newlines; a last line without a newline counts. If bytes have been
  /// dropped the first line may lack its beginning.
  std::vector<std::string> lines() const;

 private:
  std::string end_;
};

}  // namespace ddprun
