// One stream of the console, shared by the lines of many workers. Never blocks, and does not change
// the flags of the given descriptor, which is shared with the shell. Runs on the agent's thread.
#pragma once

#include "launcher/output/line_prefixer.hpp"
#include "launcher/output/open_lines.hpp"
#include "rendezvous/base/async_condition.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace ddprun {

/// Maximum bytes buffered for a console before workers have to wait: a burst that a terminal shows
/// within two seconds. Small compared with the workers' memory.
inline constexpr std::size_t kConsoleBytesMax = 1U << 20;

/// Time after which a console that accepts no output while its buffer is full drops lines instead
/// of delaying workers. Examples: an idle pager, or a terminal stopped by Ctrl-S.
inline constexpr auto kConsolePatience = std::chrono::seconds(1);

class ConsoleWriter : public std::enable_shared_from_this<ConsoleWriter> {
 public:
  /// `can_redraw`: the console is a terminal that supports the usual escape sequences.
  ConsoleWriter(const boost::asio::any_io_executor& executor, int fd, bool can_redraw, Log log);
  ~ConsoleWriter();

  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  /// Returns true if a line can be shown before it is complete and replaced later; see show().
  bool can_redraw() const { return can_redraw_; }

  /// Writes `text` of `source`, or buffers it until the console accepts it. Drops and counts the
  /// text if the console has been blocked for too long, or if twice kConsoleBytesMax are buffered.
  /// First ends an incomplete line of another source.
  void write(LinePrefixer& source, std::string text);

  /// Shows the incomplete line of `source` at the bottom of the terminal in place of its earlier
  /// one; empty: none. Delayed to limit the rate. REQUIRES: can_redraw().
  void show(const LinePrefixer& source, std::string open_line);

  /// Returns the terminal's size; nullopt if the console is not a terminal.
  std::optional<TerminalSize> terminal_size() const;

  /// Removes `source`. Must be called before its destruction.
  void forget(const LinePrefixer& source);

  /// Prepares for the use of the terminal by another program.
  void leave_terminal();

  /// Stops waiting for the console.
  void close();

  /// Returns true while callers should not write more output.
  bool is_full() const { return has_patience_ && buffered_bytes() >= kConsoleBytesMax; }

  /// Returns a condition that is notified when is_full() becomes false.
  AsyncCondition& room() { return room_; }

  /// Returns true if the console has accepted all output.
  bool is_idle() const { return pending_.empty() && dropped_bytes_ == 0 && !is_redraw_due_; }

  /// Waits until the console is idle or the deadline passes. For a single waiter.
  boost::asio::awaitable<void> drain(Deadline deadline);

  /// Returns true if the console has rejected output, such as a full disk does. Returns false if
  /// its reader has ended or the terminal was closed, since the output is then unwanted.
  bool has_lost_output() const { return has_lost_output_; }

 private:
  enum class Kind {
    file,     ///< never blocks: regular file or null device
    own,      ///< reopened, so that non-blocking mode does not affect others
    guarded,  ///< could not be reopened: small writes, each after readiness
    broken,   ///< has rejected output; further output is discarded
  };

  void reopen(int fd);
  void watch();
  void push();
  void add_to_terminal(const LinePrefixer& source, const std::string& text);
  void redraw();
  void give_up(int error);
  ssize_t write_some();
  void remove_written(std::size_t bytes);
  void restart_patience();
  void announce_dropped();
  std::size_t buffered_bytes() const { return pending_.size() - taken_; }

  Log log_;
  Kind kind_ = Kind::file;
  int fd_;
  bool is_owner_ = false;
  bool can_redraw_;
  bool is_terminal_;
  bool has_lost_output_ = false;
  std::string pending_;
  std::size_t taken_ = 0;  ///< bytes of pending_ that have been written
  std::size_t dropped_lines_ = 0;
  std::size_t dropped_bytes_ = 0;
  bool has_patience_ = true;
  LinePrefixer* open_line_ = nullptr;  ///< source of the incomplete line, unless redrawn
  LinePrefixer ended_{"", LinePrefixer::Form::verbatim};  ///< replaces *open_line_ after forget()
  OpenLines open_lines_;                                  ///< for consoles with redrawing
  bool is_redraw_due_ = false;
  bool is_waiting_ = false;
  // Asio would make the console's descriptor non-blocking, also for the shell; so it watches an
  // epoll descriptor that watches the console.
  boost::asio::posix::stream_descriptor readiness_;
  AsyncCondition idle_;
  AsyncCondition room_;
  boost::asio::steady_timer patience_;
  boost::asio::steady_timer redraw_timer_;
};

}  // namespace ddprun
