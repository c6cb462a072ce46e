#include "launcher/output/worker_stream.hpp"

#include <ddprun/error.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

// Requested pipe size, for output while the agent is busy. The kernel may grant less.
constexpr int kPipeBytes = 256 << 10;
// Maximum bytes read from one stream before others get their turn.
constexpr std::size_t kReadBytes = 64U << 10;
// Long enough to keep lines together that are written in pieces, short enough for a prompt.
constexpr auto kPartialLineWait = std::chrono::milliseconds(100);
// Interval between states of a progress bar without redrawing: a file then has some thousand lines
// after a day's training, and readers can see the progress.
constexpr auto kLongWait = std::chrono::seconds(10);

}  // namespace

WorkerStream::WorkerStream(const asio::any_io_executor& executor, const StreamSpec& spec,
                           std::shared_ptr<ConsoleWriter> console, std::shared_ptr<LogWriter> logs)
    : logs_(std::move(logs)),
      shows_bytes_at_once_(spec.form == ConsoleForm::verbatim_bytes),
      console_(std::move(console)),
      prefixer_(spec.prefix, spec.form == ConsoleForm::lines ? LinePrefixer::Form::lines
                                                             : LinePrefixer::Form::verbatim),
      filter_(spec.prefix, spec.filters),
      pipe_(executor),
      partial_line_(executor),
      ended_(executor) {
  if (spec.target != StreamTarget::console) file_.emplace(spec.file, logs_);
  if (!spec.filtered_file.empty()) filtered_file_.emplace(spec.filtered_file, logs_);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("worker output: pipe", errno);
  ::fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  boost::system::error_code error;
  pipe_.assign(ends[0], error);
  if (error) {
    for (const int end : ends) ::close(end);
    throw_system_error("worker output: pipe", error.value());
  }
  worker_end_ = ends[1];
}

WorkerStream::~WorkerStream() {
  close_worker_end();
  if (console_) console_->forget(prefixer_);
}

void WorkerStream::close_worker_end() {
  if (worker_end_ >= 0) ::close(std::exchange(worker_end_, -1));
}

void WorkerStream::start() {
  read_more();
}

/// Returns the condition of a full destination, or null. Meanwhile the pipe fills and the worker
/// waits.
AsyncCondition* WorkerStream::awaited_room() {
  if (console_ && console_->is_full()) return &console_->room();
  if (logs_ && logs_->is_full()) return &logs_->room();
  return nullptr;
}

void WorkerStream::read_more() {
  if (auto* const room = awaited_room()) {
    room->call_once([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && !self->has_ended_) self->read_more();
    });
    return;
  }
  pipe_.async_wait(asio::posix::descriptor_base::wait_read,
                   [self = shared_from_this()](boost::system::error_code error) {
                     if (error || self->has_ended_) return;
                     // Another stream may have filled a destination in the same iteration of the
                     // loop.
                     if (self->awaited_room() != nullptr) return self->read_more();
                     if (self->read_some()) self->read_more();
                   });
}

/// Returns false at the end of the stream.
bool WorkerStream::read_some() {
  std::array<char, kReadBytes> bytes;
  const ssize_t count = ::read(pipe_.native_handle(), bytes.data(), bytes.size());
  if (count > 0) take({bytes.data(), static_cast<std::size_t>(count)});
  const bool may_follow = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  if (!may_follow) end();
  return may_follow;
}

void WorkerStream::take(std::string_view bytes) {
  const auto now = std::chrono::system_clock::now();
  write_files(bytes, now);
  last_.take(bytes);
  if (copy_) copy_->append(bytes.substr(0, copy_bytes_max_ - copy_->size()));
  if (!console_) return;
  console_->write(prefixer_, prefixer_.take(bytes, now));
  show_open_line();
}

void WorkerStream::show_open_line() {
  if (shows_bytes_at_once_) {
    console_->write(prefixer_, prefixer_.flush());
  } else if (console_->can_redraw() && !prefixer_.is_verbatim()) {
    console_->show(prefixer_, prefixer_.open_line());
  } else if (prefixer_.has_unshown_text()) {
    flush_soon();
  }
}

void WorkerStream::write_files(std::string_view bytes, LinePrefixer::TimePoint now) {
  if (file_) file_->write(bytes);
  if (filtered_file_) filtered_file_->write(filter_.take(bytes, now));
}

void WorkerStream::end_files() {
  if (file_) file_->end();
  if (!filtered_file_) return;
  filtered_file_->write(filter_.finish(std::chrono::system_clock::now()));
  filtered_file_->end();
}

void WorkerStream::flush_soon() {
  // Not restarted for each piece: a line that keeps growing must be shown, too.
  if (std::exchange(is_flush_due_, true)) return;
  // If lines of other sources may be inserted, a long line is better shown when complete.
  const bool can_wait = prefixer_.is_rewritten() || prefixer_.is_long();
  partial_line_.expires_after(can_wait ? kLongWait : kPartialLineWait);
  partial_line_.async_wait([weak = weak_from_this(), can_wait](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->is_flush_due_ = false;
    const bool can_wait_now = self->prefixer_.is_rewritten() || self->prefixer_.is_long();
    // The end of the line may be in the pipe while the agent is busy or the console is full.
    if ((can_wait_now && !can_wait) || self->has_unread()) return self->flush_soon();
    self->console_->write(self->prefixer_, self->prefixer_.flush());
  });
}

bool WorkerStream::has_unread() {
  int bytes = 0;
  return ::ioctl(pipe_.native_handle(), FIONREAD, &bytes) == 0 && bytes > 0;
}

void WorkerStream::end() {
  if (std::exchange(has_ended_, true)) return;
  partial_line_.cancel();
  pipe_.close();
  if (console_) {
    console_->write(prefixer_, prefixer_.finish());
    console_->forget(prefixer_);
  }
  end_files();
  ended_.notify_all();
}

asio::awaitable<bool> WorkerStream::wait_for_end(Deadline deadline) {
  const auto self = shared_from_this();
  while (!has_ended_ && !deadline.passed()) co_await ended_.wait_until(deadline);
  co_return has_ended_;
}

void WorkerStream::read_now() {
  // A descendant that keeps writing must not prolong this without limit.
  constexpr int kReadsMax = 2 * kPipeBytes / static_cast<int>(kReadBytes);
  for (int i = 0; i < kReadsMax && !has_ended_ && read_some(); ++i) {
  }
}

void WorkerStream::finish() {
  read_now();
  end();
}

void WorkerStream::copy_to(std::shared_ptr<std::string> copy, std::size_t bytes_max) {
  copy_ = std::move(copy);
  copy_bytes_max_ = bytes_max;
}

}  // namespace ddprun
