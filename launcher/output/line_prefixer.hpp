// Splits a stream of bytes into lines for a console and adds a prefix to each line. A carriage
// return starts a new state of the line, like in progress bars; only the last state is shown. Pure:
// takes bytes and time, returns text.
#pragma once

#include "launcher/plan/line_prefix.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Maximum length of a line, in bytes; longer lines are split. Bounds the memory per stream, and
/// suffices for JSON records, which programs read from a pipe.
inline constexpr std::size_t kConsoleLineBytesMax = 1U << 20;

/// Maximum bytes of an open line; enough for a terminal's row with many changes of colour.
inline constexpr std::size_t kOpenLineBytesMax = 8U << 10;

/// Maximum length of an incomplete line that is treated as a prompt.
inline constexpr std::size_t kPromptBytesMax = 4U << 10;

/// Formats local time like the launcher's lines: "2026-11-21 05:42:34.657".
class TimeStamp {
 public:
  using TimePoint = std::chrono::system_clock::time_point;

  /// Returns the text, which is valid until the next call.
  std::string_view at(TimePoint when);

 private:
  std::chrono::sys_seconds second_{std::chrono::seconds::min()};  ///< second that text_ shows
  std::string text_;
};

class LinePrefixer {
 public:
  using TimePoint = TimeStamp::TimePoint;

  enum class Form {
    lines,     ///< as described above
    verbatim,  ///< passes all bytes unchanged, without prefix
  };

  explicit LinePrefixer(LinePrefix prefix, Form form = Form::lines)
      : prefix_(std::move(prefix)), is_verbatim_(form == Form::verbatim) {}

  bool is_verbatim() const { return is_verbatim_; }

  /// Appends `bytes` and returns the completed lines, each with prefix and newline. A carriage
  /// return immediately before a newline is kept.
  std::string take(std::string_view bytes, TimePoint now);

  /// Returns true if the incomplete line has content that has not been shown.
  bool has_unshown_text() const;

  /// Returns true if the line had a carriage return, like a progress bar.
  bool is_rewritten() const { return is_rewritten_ || has_return_; }

  /// Returns true if no part of the incomplete line has been shown, and it is too long for a
  /// prompt.
  bool is_long() const { return !is_inside_line_ && partial_.size() > kPromptBytesMax; }

  /// Returns the incomplete line with its prefix for a console that can redraw it; empty if there
  /// is no incomplete line. Returns only the beginning of a long line.
  std::string open_line();

  /// Returns the incomplete line for a console without redrawing. A prompt has no newline, so that
  /// further text continues it; a progress bar becomes a complete line, and its next state becomes
  /// another line.
  std::string flush();

  /// Ends the stream. Returns the rest of the last line, with a newline.
  std::string finish();

  /// Must be called when another source has written to the console since flush(): the line cannot
  /// be continued, and the next bytes begin a new line.
  void interrupt() {
    is_inside_line_ = false;
    flushed_bytes_ = 0;
  }

  /// Returns true after flush() of a prompt, until the line ends.
  bool is_inside_line() const { return is_inside_line_; }

 private:
  std::string take_verbatim(std::string_view bytes);
  std::string give_verbatim(std::string out);
  void add(std::string& out, std::string_view segment, TimePoint now);
  void append(std::string& out, std::string_view text, TimePoint now);
  void rewrite(std::string& out, TimePoint now);
  void end_line(std::string& out);
  void forget_line();
  void put_prefix(std::string& out);
  bool is_blank() const;

  LinePrefix prefix_;
  bool is_verbatim_;
  TimeStamp stamp_;
  TimePoint began_{};              ///< start time of the line or its current state
  std::string partial_;            ///< the line, without what flush() has returned
  std::size_t flushed_bytes_ = 0;  ///< partial_ included, at most kConsoleLineBytesMax
  bool has_return_ = false;        ///< after partial_; its meaning depends on the next byte
  bool is_rewritten_ = false;      ///< the line had an earlier state
  bool is_shown_ = false;          ///< flush() has returned this state as a line
  bool is_inside_line_ = false;
};

}  // namespace ddprun
