// One stream of one worker: the read end of its pipe, its file, its console and its last lines.
// Runs on the agent's thread.
#pragma once

#include "launcher/output/console_writer.hpp"
#include "launcher/output/last_lines.hpp"
#include "launcher/output/line_filter.hpp"
#include "launcher/output/line_prefixer.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/output/output_router.hpp"
#include "rendezvous/base/async_condition.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class WorkerStream : public std::enable_shared_from_this<WorkerStream> {
 public:
  /// A null `console` hides the stream. `logs` may be null if the stream has no file.
  WorkerStream(const boost::asio::any_io_executor& executor, const StreamSpec& spec,
               std::shared_ptr<ConsoleWriter> console, std::shared_ptr<LogWriter> logs);
  ~WorkerStream();

  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  /// Returns the worker's end of the pipe. Close it once the worker has started.
  int worker_end() const { return worker_end_; }
  void close_worker_end();

  /// Starts reading.
  void start();

  /// Returns true at the end of the stream and false at the deadline, since a descendant may keep
  /// the pipe open.
  boost::asio::awaitable<bool> wait_for_end(Deadline deadline);

  /// Reads the available bytes, then ends the stream.
  void finish();

  /// Appends further bytes to `copy`, too, up to `bytes_max`; null ends copying.
  void copy_to(std::shared_ptr<std::string> copy, std::size_t bytes_max = 0);

  /// Reads the available bytes without ending the stream.
  void read_now();

  /// Stops reading.
  void close() { end(); }

  /// Returns the last lines, oldest first.
  std::vector<std::string> last_lines() const { return last_.lines(); }

 private:
  bool read_some();
  void read_more();
  AsyncCondition* awaited_room();
  void take(std::string_view bytes);
  void write_files(std::string_view bytes, LinePrefixer::TimePoint now);
  void end_files();
  void show_open_line();
  void flush_soon();
  bool has_unread();
  void end();

  std::shared_ptr<LogWriter> logs_;
  std::optional<LogFile> file_;
  std::optional<LogFile> filtered_file_;
  int worker_end_ = -1;
  bool has_ended_ = false;
  bool is_flush_due_ = false;
  bool shows_bytes_at_once_;
  std::shared_ptr<ConsoleWriter> console_;
  LinePrefixer prefixer_;
  LineFilter filter_;
  LastLines last_;
  std::shared_ptr<std::string> copy_;
  std::size_t copy_bytes_max_ = 0;
  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer partial_line_;  ///< time to show an incomplete line
  AsyncCondition ended_;
};

}  // namespace ddprun
