// One stream of the console as the place where many workers' lines end up. It never blocks and
// never changes the flags of the descriptor it was given, which is shared with the shell. Runs on
// the agent's one thread.
#pragma once

#include "launcher/output/line_prefixer.hpp"
#include "launcher/output/open_lines.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace ddprun {

/// What a console may owe before the workers wait for it: enough to ride out a burst that a
/// terminal shows in a second or two, and small beside the workers.
inline constexpr std::size_t kConsoleBytesMax = 1U << 20;

/// A console that owes that much and takes nothing for this long is not waited for any more, but
/// loses lines: it is a pager that somebody reads, or a terminal that was stopped by Ctrl-S.
inline constexpr auto kConsolePatience = std::chrono::seconds(1);

class ConsoleWriter : public std::enable_shared_from_this<ConsoleWriter> {
 public:
  /// `can_redraw`: a terminal that understands the usual escape sequences.
  ConsoleWriter(const boost::asio::any_io_executor& executor, int fd, bool can_redraw, Log log);
  ~ConsoleWriter();

  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  /// True if a line can be shown before it is complete and replaced later; see show().
  bool can_redraw() const { return can_redraw_; }

  /// Writes `text`, which `source` has just made, or keeps it until the console takes it. If the
  /// console has used up its patience the text is dropped and counted. A line that another source
  /// has left open is ended first.
  void write(LinePrefixer& source, std::string text);

  /// Only if can_redraw(): shows the line that `source` has not completed yet at the lower end of
  /// the terminal, in place of what it showed before; empty: it has none. Soon, not at once.
  void show(const LinePrefixer& source, std::string open_line);

  /// Nothing if it is no terminal.
  std::optional<TerminalSize> terminal_size() const;

  /// `source` will not be used any more.
  void forget(const LinePrefixer& source);

  /// The terminal is about to be another program's.
  void leave_terminal();

  /// Stops waiting for the console.
  void close();

  /// True while it is better to leave output where it is than to write it.
  bool is_full() const { return has_patience_ && owed_bytes() >= kConsoleBytesMax; }

  /// Expires when is_full() becomes false.
  boost::asio::steady_timer& room_signal() { return room_signal_; }

  /// True if the console has taken everything.
  bool is_idle() const { return pending_.empty() && dropped_bytes_ == 0 && !is_redraw_due_; }

  /// It has refused output that somebody may want, as a full disk does. A reader that has gone, or
  /// a terminal that was closed, wants none.
  bool has_lost_output() const { return has_lost_output_; }

  /// Expires when the console becomes idle.
  boost::asio::steady_timer& idle_signal() { return idle_signal_; }

 private:
  enum class Kind {
    file,     ///< never blocks: regular files and the null device
    own,      ///< opened anew, so that non-blocking mode is ours alone
    guarded,  ///< could not be opened anew: small writes, each after the kernel said it is ready
    broken,   ///< it has refused output: nothing more is written
  };

  void open_anew(int fd);
  void watch();
  void push();
  void add_to_terminal(const LinePrefixer& source, const std::string& text);
  void redraw();
  void give_up(int error);
  ssize_t write_some();
  void take_off(std::size_t bytes);
  void be_patient();
  void announce_dropped();
  std::size_t owed_bytes() const { return pending_.size() - taken_; }

  Log log_;
  Kind kind_ = Kind::file;
  int fd_;
  bool is_owner_ = false;
  bool can_redraw_;
  bool is_terminal_;
  bool has_lost_output_ = false;
  std::string pending_;
  std::size_t taken_ = 0;  ///< of pending_
  std::size_t dropped_lines_ = 0;
  std::size_t dropped_bytes_ = 0;
  bool has_patience_ = true;
  LinePrefixer* open_line_ = nullptr;  ///< who has written part of a line, if it cannot be redrawn
  LinePrefixer ended_{"", LinePrefixer::Form::verbatim};  ///< in its place once that has gone
  OpenLines open_lines_;                                  ///< if they can
  bool is_redraw_due_ = false;
  bool is_waiting_ = false;
  // Asio would make the descriptor itself non-blocking, for the shell too; so it watches an epoll
  // descriptor that watches the console.
  boost::asio::posix::stream_descriptor readiness_;
  boost::asio::steady_timer idle_signal_;
  boost::asio::steady_timer room_signal_;
  boost::asio::steady_timer patience_;
  boost::asio::steady_timer redraw_timer_;
};

}  // namespace ddprun
