// Cuts a stream of bytes into lines for a console and puts a prefix before each. A carriage return
// means that the line is written again from its start, as progress bars do: of such a line only the
// last state counts. Pure: bytes and the time in, text out.
#pragma once

#include "launcher/plan/line_prefix.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// A line longer than this is broken: a bound for the memory of one stream, and room for records of
/// JSON, which programs read from a pipe.
inline constexpr std::size_t kConsoleLineBytesMax = 1U << 20;

/// What a terminal's row has room for, with many changes of colour.
inline constexpr std::size_t kOpenLineBytesMax = 8U << 10;

/// An incomplete line longer than this is no prompt.
inline constexpr std::size_t kPromptBytesMax = 4U << 10;

/// Local time as in the launcher's own lines: "2026-11-21 05:42:34.657".
class TimeStamp {
 public:
  using TimePoint = std::chrono::system_clock::time_point;

  /// Valid until the next call.
  std::string_view at(TimePoint when);

 private:
  std::chrono::sys_seconds second_{std::chrono::seconds::min()};  ///< what text_ holds
  std::string text_;
};

class LinePrefixer {
 public:
  using TimePoint = TimeStamp::TimePoint;

  enum class Form {
    lines,     ///< as described above
    verbatim,  ///< every byte comes out, and nothing else; there is no prefix
  };

  explicit LinePrefixer(LinePrefix prefix, Form form = Form::lines)
      : prefix_(std::move(prefix)), is_verbatim_(form == Form::verbatim) {}

  bool is_verbatim() const { return is_verbatim_; }

  /// Takes more of the stream and returns the lines that are now complete, each with the prefix
  /// and a newline. A carriage return just before a newline stays.
  std::string take(std::string_view bytes, TimePoint now);

  /// True if there is something of the line that waits for its end which nobody has seen yet.
  bool has_news() const;

  /// True if a carriage return has come since the line began: it is a progress bar.
  bool is_rewritten() const { return is_rewritten_ || has_return_; }

  /// True if nothing of the line that waits for its end has been seen, and it is too long for a
  /// prompt.
  bool is_long() const { return !is_inside_line_ && partial_.size() > kPromptBytesMax; }

  /// The line that waits for its end as it stands, with the prefix; empty if there is none. For a
  /// console that can take it off again. Of a long line the beginning.
  std::string open_line();

  /// For one that cannot. Returns what there is of the line: a prompt without a newline, so that
  /// what follows continues it; a progress bar as a whole line, so that the next state is another.
  std::string flush();

  /// The stream has ended: returns what is missing of the last line, with a newline.
  std::string finish();

  /// Somebody else wrote to the console since flush(): the line cannot be continued and the next
  /// bytes begin a new one.
  void interrupt() {
    is_inside_line_ = false;
    flushed_bytes_ = 0;
  }

  /// True after flush() of a prompt, until the line ends.
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
  TimePoint began_{};              ///< the line, or its present state
  std::string partial_;            ///< without what flush() has returned of the line
  std::size_t flushed_bytes_ = 0;  ///< with partial_ at most kConsoleLineBytesMax
  bool has_return_ = false;        ///< after partial_; the next byte tells what it means
  bool is_rewritten_ = false;      ///< there was a state before this one
  bool is_shown_ = false;          ///< flush() has returned this state as a line
  bool is_inside_line_ = false;
};

}  // namespace ddprun
