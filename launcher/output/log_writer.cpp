#include "launcher/output/log_writer.hpp"

#include "rendezvous/base/await.hpp"
#include "rendezvous/base/quiet_write.hpp"
#include "rendezvous/base/start_thread.hpp"
#include <ddprun/error.hpp>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

using Clock = std::chrono::steady_clock;

/// Pending bytes at which the thread is woken immediately; otherwise it is woken slightly later,
/// since a wake-up for each piece of output takes longer than its write.
constexpr std::size_t kWakeBytes = std::size_t{256} << 10;
constexpr auto kWakeDelay = std::chrono::milliseconds(2);

/// Maximum buffers kept for reuse: of 64 KiB each, the size of a read. Only large pieces take one:
/// a small piece would occupy a whole buffer while it is pending.
constexpr std::size_t kSpareBuffersMax = 16;
constexpr std::size_t kLargePieceBytes = std::size_t{32} << 10;

struct Job {
  std::shared_ptr<LogWriter::File> file;
  std::string bytes;
  bool is_last = false;
  std::uint64_t lost_bytes = 0;  ///< dropped before the queue; in the last job only

  /// Memory in use by the job.
  std::size_t memory() const { return sizeof(Job) + bytes.capacity(); }
};

/// Returns a warning; empty if there is nothing to report.
std::string write_bytes(LogWriter::File& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = quiet_write(file.fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const bool is_first = file.failed_bytes == 0;
      file.failed_bytes += bytes.size();
      file.error_number = errno;
      if (!is_first) return {};
      return file.name + ": " + std::strerror(errno) +
             "; output is missing from it; the worker continues";
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

std::string close_file(LogWriter::File& file, std::uint64_t lost_bytes) {
  file.fd = UniqueFd();
  lost_bytes += file.failed_bytes;
  if (lost_bytes == 0) return {};
  const std::string reason =
      file.failed_bytes > 0 ? std::strerror(file.error_number) : "its file system takes no output";
  return file.name + ": " + std::to_string(lost_bytes) + " bytes of output are missing (" + reason +
         ")";
}

}  // namespace

struct LogWriter::Queue {
  /// Runs on the thread. Returns after stop(), when everything has been written.
  static void run(const std::shared_ptr<Queue>& self) {
    std::unique_lock lock(self->mutex);
    while (true) {
      self->work.wait(lock, [&] { return !self->jobs.empty() || self->must_stop; });
      if (self->jobs.empty()) break;
      Job job = std::move(self->jobs.front());
      self->current_name = job.file->name;
      lock.unlock();
      auto report =
          job.is_last ? close_file(*job.file, job.lost_bytes) : write_bytes(*job.file, job.bytes);
      lock.lock();
      self->jobs.pop_front();
      self->finish(job, std::move(report));
      self->recycle(std::move(job.bytes));
    }
    self->has_stopped = true;
    self->progress.notify_all();
  }

  void add(Job job) {
    const std::lock_guard lock(mutex);
    if (jobs.empty()) last_progress = Clock::now();
    bytes += job.bytes.size();
    memory += job.memory();
    jobs.push_back(std::move(job));
  }

  /// Returns a buffer for a piece of this size.
  std::string buffer(std::size_t piece_bytes) {
    if (piece_bytes < kLargePieceBytes) return {};
    const std::lock_guard lock(mutex);
    if (spare.empty()) return {};
    std::string taken = std::move(spare.back());
    spare.pop_back();
    return taken;
  }

  /// Runs on the thread, with the mutex locked.
  void recycle(std::string buffer) {
    const bool is_large = buffer.capacity() >= kLargePieceBytes;
    if (is_large && spare.size() < kSpareBuffersMax) spare.push_back(std::move(buffer));
  }

  /// Runs on the thread, with the mutex locked.
  void finish(const Job& job, std::string report) {
    const bool was_full = memory >= kLogBytesMax;
    bytes -= job.bytes.size();
    memory -= job.memory();
    last_progress = Clock::now();
    if (!report.empty()) reports.push_back(std::move(report));
    if (must_stop) progress.notify_all();
    if (!reports.empty() || (was_full && memory < kLogBytesMax) || (is_drained && jobs.empty()))
      ::eventfd_write(event.get(), 1);
  }

  std::mutex mutex;
  std::condition_variable work;      ///< wakes the thread
  std::condition_variable progress;  ///< for stop()
  std::deque<Job> jobs;              ///< the first one is in progress
  std::vector<std::string> spare;    ///< unused buffers
  std::string current_name;
  std::uint64_t bytes = 0;              ///< output of all jobs
  std::atomic<std::size_t> memory = 0;  ///< of all jobs
  std::vector<std::string> reports;     ///< to be logged; at most two for each file
  Clock::time_point last_progress = Clock::now();
  bool is_drained = false;  ///< drain() waits for the last job
  bool must_stop = false;
  bool has_stopped = false;
  UniqueFd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

LogWriter::LogWriter(const boost::asio::any_io_executor& executor, Log log,
                     std::chrono::milliseconds patience)
    : log_(std::move(log)),
      patience_limit_(patience),
      queue_(std::make_shared<Queue>()),
      notices_(executor),
      wake_(executor),
      patience_(executor),
      room_(executor),
      idle_(executor) {
  // The thread may outlive this object and then signals its own descriptor.
  const int event = ::fcntl(queue_->event.get(), F_DUPFD_CLOEXEC, 0);
  if (event < 0) throw_system_error("log files: eventfd", errno);
  notices_.assign(event);
  try {
    thread_ = start_thread([queue = queue_] { Queue::run(queue); });
  } catch (const std::system_error& failure) {
    throw_system_error("log files: thread", failure.code().value());
  }
}

LogWriter::~LogWriter() {
  stop();
}

void LogWriter::start() {
  notices_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                      [weak = weak_from_this()](boost::system::error_code error) {
                        const auto self = weak.lock();
                        if (error || !self) return;
                        eventfd_t count = 0;
                        ::eventfd_read(self->notices_.native_handle(), &count);
                        self->take_reports();
                        self->start();
                      });
}

bool LogWriter::is_full() const {
  return has_patience_ && queue_->memory >= kLogBytesMax;
}

bool LogWriter::write(const std::shared_ptr<File>& file, std::string_view bytes) {
  const std::size_t queued = queue_->memory;
  // Pipes of ended workers are read without waiting, so output is dropped only at twice the limit.
  const bool is_lost = queued >= (has_patience_ ? 2 * kLogBytesMax : kLogBytesMax);
  if (is_lost || !thread_.joinable()) return false;
  auto buffer = queue_->buffer(bytes.size());
  buffer.assign(bytes);
  queue_->add({.file = file, .bytes = std::move(buffer)});
  if (queued + bytes.size() >= kWakeBytes) {
    queue_->work.notify_one();
  } else {
    wake_soon();
  }
  if (is_full() && queued < kLogBytesMax) restart_patience();
  return true;
}

void LogWriter::close(std::shared_ptr<File> file, std::uint64_t lost_bytes) {
  const std::size_t queued = queue_->memory;
  queue_->add({.file = std::move(file), .bytes = {}, .is_last = true, .lost_bytes = lost_bytes});
  queue_->work.notify_one();
  if (is_full() && queued < kLogBytesMax) restart_patience();
}

void LogWriter::report_loss(const std::string& text) {
  has_lost_output_ = true;
  write_log(log_, LogLevel::warn, text);
}

void LogWriter::wake_soon() {
  if (std::exchange(is_wake_due_, true)) return;
  wake_.expires_after(kWakeDelay);
  wake_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->is_wake_due_ = false;
    self->queue_->work.notify_one();
  });
}

void LogWriter::restart_patience() {
  Clock::time_point last_progress;
  {
    const std::lock_guard lock(queue_->mutex);
    last_progress = queue_->last_progress;
  }
  patience_.expires_at(last_progress + patience_limit_);
  patience_.async_wait([weak = weak_from_this(), last_progress](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self || !self->is_full()) return;
    {
      const std::lock_guard lock(self->queue_->mutex);
      self->has_patience_ = self->queue_->last_progress != last_progress;
    }
    if (self->has_patience_) return self->restart_patience();
    self->room_.notify_all();
  });
}

void LogWriter::take_reports() {
  std::vector<std::string> reports;
  bool is_idle = false;
  {
    const std::lock_guard lock(queue_->mutex);
    reports.swap(queue_->reports);
    is_idle = queue_->jobs.empty();
  }
  for (const auto& report : reports) report_loss(report);
  if (queue_->memory < kLogBytesMax) {
    has_patience_ = true;
    patience_.cancel();
    room_.notify_all();
  }
  if (is_idle) idle_.notify_all();
}

boost::asio::awaitable<void> LogWriter::drain() {
  const auto self = shared_from_this();
  while (true) {
    take_reports();
    auto deadline = Deadline::never();
    {
      const std::lock_guard lock(queue_->mutex);
      if (queue_->jobs.empty()) co_return;
      queue_->is_drained = true;
      queue_->work.notify_one();
      deadline = Deadline::from(queue_->last_progress, patience_limit_);
    }
    if (deadline.passed()) {
      report_unwritten();
      co_return;
    }
    co_await idle_.wait_until(deadline);
  }
}

void LogWriter::report_unwritten() {
  std::string text;
  {
    const std::lock_guard lock(queue_->mutex);
    std::uint64_t bytes = queue_->bytes;
    for (const auto& job : queue_->jobs) bytes += job.lost_bytes;
    text = queue_->current_name + ": its file system takes no output; " + std::to_string(bytes) +
           " bytes of output are missing from log files";
  }
  // Without the lock, since the console may be slow, and the thread continues.
  report_loss(text);
}

void LogWriter::stop() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(queue_->mutex);
  if (queue_->jobs.empty()) queue_->last_progress = Clock::now();
  queue_->must_stop = true;
  queue_->work.notify_one();
  const auto is_late = [&] { return Clock::now() >= queue_->last_progress + patience_limit_; };
  while (!queue_->has_stopped && !is_late())
    queue_->progress.wait_until(lock, queue_->last_progress + patience_limit_);
  const bool has_stopped = queue_->has_stopped;
  lock.unlock();
  has_stopped ? thread_.join() : thread_.detach();
  boost::system::error_code ignored;
  notices_.close(ignored);
  patience_.cancel();
  wake_.cancel();
}

}  // namespace ddprun
