// One stream of the console as the place where many workers' lines end up. It never blocks and
// never changes the flags of the descriptor it was given, which is shared with the shell. Runs on
// the agent's one thread.
#pragma once

#include "launcher/process/line_prefixer.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace ddprun {

/// What a console may owe: enough to ride out a burst that a terminal shows in a second or two, and
/// small beside the workers.
inline constexpr std::size_t kConsoleBytesMax = 1U << 20;

class ConsoleWriter : public std::enable_shared_from_this<ConsoleWriter> {
 public:
  ConsoleWriter(const boost::asio::any_io_executor& executor, int fd, Log log);
  ~ConsoleWriter();

  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  /// Writes `text`, which `source` has just made, or keeps it until the console takes it. If the
  /// console owes too much already the text is dropped and counted. A line that another source has
  /// left open is ended first.
  void write(LinePrefixer& source, std::string text);

  /// `source` will not be used any more.
  void forget(const LinePrefixer& source);

  /// Stops waiting for the console.
  void close();

  /// True if the console has taken everything.
  bool is_idle() const { return pending_.empty() && dropped_bytes_ == 0; }

  /// Expires when the console becomes idle.
  boost::asio::steady_timer& idle_signal() { return idle_signal_; }

 private:
  enum class Kind {
    file,     ///< never blocks: regular files and the null device
    own,      ///< opened anew, so that non-blocking mode is ours alone
    guarded,  ///< could not be opened anew: small writes, each after the kernel said it is ready
    broken,   ///< the reader has gone
  };

  void open_anew(int fd);
  void watch();
  void push();
  void give_up(const char* reason);
  ssize_t write_some();
  void announce_dropped();

  Log log_;
  Kind kind_ = Kind::file;
  int fd_;
  bool is_owner_ = false;
  std::string pending_;
  std::size_t dropped_lines_ = 0;
  std::size_t dropped_bytes_ = 0;
  LinePrefixer* open_line_ = nullptr;  ///< who has written part of a line
  bool is_waiting_ = false;
  // Asio would make the descriptor itself non-blocking, for the shell too; so it watches an epoll
  // descriptor that watches the console.
  boost::asio::posix::stream_descriptor readiness_;
  boost::asio::steady_timer idle_signal_;
};

}  // namespace ddprun
