// Writes log files on a separate thread, so that a hanging file system blocks only that thread.
// Pending output is bounded: at the limit the workers wait. If the file system accepts nothing for
// some time, output is dropped and reported. All functions are called on the executor's single
// thread.
#pragma once

#include "rendezvous/base/async_condition.hpp"
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

/// Size of pending output at which workers have to wait; a disk cache accepts it in some 10 ms.
/// Includes the overhead of each piece, because most pieces may have only a few bytes.
inline constexpr std::size_t kLogBytesMax = std::size_t{16} << 20;

/// Time after which a file system that accepts nothing is considered hung. Workers and the end of
/// the run then no longer wait for it.
inline constexpr auto kLogPatience = std::chrono::seconds(5);

class LogWriter : public std::enable_shared_from_this<LogWriter> {
 public:
  /// A file that only the writer's thread uses.
  struct File {
    std::string name;
    UniqueFd fd;
    std::uint64_t failed_bytes = 0;
    int error_number = 0;  ///< errno of the last failure if failed_bytes > 0
  };

  /// `log` receives a warning at the first loss of a file, and the total at its end.
  LogWriter(const boost::asio::any_io_executor& executor, Log log,
            std::chrono::milliseconds patience = kLogPatience);
  ~LogWriter();  ///< calls stop()

  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Starts reporting. Must be called once.
  void start();

  /// Queues the bytes. Returns false if they are dropped because the file system hangs.
  bool write(const std::shared_ptr<File>& file, std::string_view bytes);

  /// Closes the file after its queued output, and reports the number of missing bytes: `lost_bytes`
  /// plus those that could not be written.
  void close(std::shared_ptr<File> file, std::uint64_t lost_bytes);

  /// Reports that output is missing from a file.
  void report_loss(const std::string& text);

  /// Returns true once a loss has been reported.
  bool has_lost_output() const { return has_lost_output_; }

  /// Returns true while workers have to wait.
  bool is_full() const;

  /// Returns a condition that is notified when is_full() becomes false.
  AsyncCondition& room() { return room_; }

  /// Waits until all output is written or the file system is considered hung, which is reported.
  boost::asio::awaitable<void> drain();

  /// Waits like drain(), but without running the executor. Afterwards nothing is written. Abandons
  /// a thread that the file system blocks; it accesses only its queue.
  void stop();

 private:
  struct Queue;

  void wake_soon();
  void restart_patience();
  void take_reports();
  void report_unwritten();

  Log log_;
  std::chrono::milliseconds patience_limit_;
  std::shared_ptr<Queue> queue_;  ///< shared with the thread
  std::thread thread_;
  bool has_patience_ = true;
  bool has_lost_output_ = false;
  bool is_wake_due_ = false;
  boost::asio::posix::stream_descriptor notices_;  ///< notices from the thread
  boost::asio::steady_timer wake_;
  boost::asio::steady_timer patience_;
  AsyncCondition room_;
  AsyncCondition idle_;
};

}  // namespace ddprun
