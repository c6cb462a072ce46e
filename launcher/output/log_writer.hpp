// Writes log files on a thread of its own: a file system that hangs blocks that thread and not the
// agent. What waits to be written is bounded; while there is too much of it the workers are held
// up, and once the file system has taken nothing for a while the output is lost and reported. All
// functions are called on the executor's one thread.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include <ddprun/log.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace ddprun {

/// Memory of unwritten output from which workers are held up: some 10 ms of what a disk's cache
/// takes. Each piece counts with what it takes to keep it, as most may be of a few bytes.
inline constexpr std::size_t kLogBytesMax = std::size_t{16} << 20;

/// A file system that takes nothing for this long is considered hung: workers are not held up any
/// more, and the end of the run does not wait for it.
inline constexpr auto kLogPatience = std::chrono::seconds(5);

class LogWriter : public std::enable_shared_from_this<LogWriter> {
 public:
  /// A file of which the writer's thread is the only user.
  struct File {
    std::string name;
    UniqueFd fd;
    std::uint64_t failed_bytes = 0;
    int error_number = 0;  ///< if failed_bytes > 0: the error of the last failure
  };

  /// `log` gets a warning at the first loss of a file, and its sum at the end.
  LogWriter(const boost::asio::any_io_executor& executor, Log log,
            std::chrono::milliseconds patience = kLogPatience);
  ~LogWriter();  ///< as stop()

  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Begins to report. To be called once.
  void start();

  /// Queues the bytes. Returns false if they are lost, because the file system is hung.
  bool write(const std::shared_ptr<File>& file, std::string_view bytes);

  /// Closes the file after what was queued for it, and reports how many bytes it lacks:
  /// `lost_bytes` and those that could not be written.
  void close(std::shared_ptr<File> file, std::uint64_t lost_bytes);

  void warn(const std::string& text) const { write_log(log_, LogLevel::warn, text); }

  /// True while workers are to be held up.
  bool is_full() const;

  /// Expires when is_full() becomes false.
  boost::asio::steady_timer& room_signal() { return room_signal_; }

  /// Waits until all is written, or the file system is considered hung, which is reported.
  boost::asio::awaitable<void> drain();

  /// Waits as drain() does, without running the executor; then nothing is written any more. A
  /// thread that is blocked by the file system is left behind: it touches nothing but its queue.
  void stop();

 private:
  struct Queue;

  void wake_soon();
  void be_patient();
  void take_reports();
  void report_unwritten();

  Log log_;
  std::chrono::milliseconds patience_limit_;
  std::shared_ptr<Queue> queue_;  ///< shared with the thread
  std::thread thread_;
  bool has_patience_ = true;
  bool is_wake_due_ = false;
  boost::asio::posix::stream_descriptor notices_;  ///< of the thread
  boost::asio::steady_timer wake_;
  boost::asio::steady_timer patience_;
  boost::asio::steady_timer room_signal_;
  boost::asio::steady_timer idle_signal_;
};

}  // namespace ddprun
