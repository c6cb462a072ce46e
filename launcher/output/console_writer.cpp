#include "launcher/output/console_writer.hpp"

#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

// A terminal that is ready accepts at least this much without blocking, even if each byte becomes
// two (newline to carriage return and newline); a pipe accepts 4,096.
constexpr std::size_t kGuardedBytes = 128;

// Fast enough for viewers; each redraw sends all open lines to the terminal.
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);

TerminalSize size_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

bool is_ready(int fd) {
  pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&ready, 1, 0) > 0;
}

}  // namespace

ConsoleWriter::ConsoleWriter(const asio::any_io_executor& executor, int fd, bool can_redraw,
                             Log log)
    : log_(std::move(log)),
      fd_(fd),
      can_redraw_(can_redraw),
      is_terminal_(::isatty(fd) != 0),
      readiness_(executor),
      idle_(executor),
      room_(executor),
      patience_(executor),
      redraw_timer_(executor) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) throw_system_error("console: epoll", errno);
  readiness_.assign(epoll);
  reopen(fd);
  if (kind_ == Kind::file) return;
  epoll_event interest{.events = EPOLLOUT | EPOLLET, .data = {}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &interest) == 0) return;
  if (errno != EPERM) throw_system_error("console: epoll", errno);
  kind_ = Kind::file;  // such as the null device, which never blocks
}

void ConsoleWriter::close() {
  boost::system::error_code ignored;
  readiness_.cancel(ignored);
  patience_.cancel();
  redraw_timer_.cancel();
}

ConsoleWriter::~ConsoleWriter() {
  if (is_owner_) ::close(fd_);
}

void ConsoleWriter::reopen(int fd) {
  struct stat status {};
  // A regular file's position is in the shared description, which must remain in use. The first
  // write to a closed descriptor reports it.
  if (::fstat(fd, &status) != 0 || S_ISREG(status.st_mode)) return;
  kind_ = Kind::guarded;
  const auto path = "/proc/self/fd/" + std::to_string(fd);
  const int own = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own < 0) return;  // a socket, or a terminal of another user
  kind_ = Kind::own;
  fd_ = own;
  is_owner_ = true;
}

void ConsoleWriter::write(LinePrefixer& source, std::string text) {
  if (kind_ == Kind::broken || text.empty()) return;
  // Pipes of ended workers are read without waiting, so output is dropped only at twice the limit.
  const bool is_lost =
      buffered_bytes() >= (has_patience_ ? 2 * kConsoleBytesMax : kConsoleBytesMax);
  // After a loss, drop everything until the console has caught up, so that the notice appears where
  // lines are missing.
  if (dropped_bytes_ > 0 || is_lost) {
    dropped_lines_ += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    dropped_bytes_ += text.size();
    source.interrupt();
    return;
  }
  // Nothing is inserted between verbatim streams.
  if (open_line_ != nullptr && open_line_ != &source && !source.is_verbatim()) {
    pending_ += '\n';
    open_line_->interrupt();
  }
  if (can_redraw_) {
    add_to_terminal(source, text);
  } else {
    pending_ += text;
  }
  open_line_ = source.is_inside_line() ? &source : nullptr;
  if (!is_waiting_) push();
  if (is_full()) restart_patience();
}

/// Writes above the open lines; that of `source` is now complete.
void ConsoleWriter::add_to_terminal(const LinePrefixer& source, const std::string& text) {
  const bool was_idle = pending_.empty();
  if (const auto rest = open_lines_.complete(&source, text)) {
    pending_ += *rest;
  } else {
    open_lines_.set(&source, "");
    pending_ += open_lines_.erase() + text;
  }
  if (was_idle) {
    pending_ += open_lines_.draw(size_of(fd_));
  } else {
    is_redraw_due_ = true;
  }
}

void ConsoleWriter::show(const LinePrefixer& source, std::string open_line) {
  if (kind_ == Kind::broken) return;
  if (!open_lines_.set(&source, std::move(open_line))) return;
  if (std::exchange(is_redraw_due_, true)) return;
  redraw_timer_.expires_after(kRedrawEvery);
  redraw_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error && !self->is_waiting_) self->push();
  });
}

void ConsoleWriter::redraw() {
  is_redraw_due_ = false;
  pending_ += open_lines_.draw(size_of(fd_));
}

void ConsoleWriter::leave_terminal() {
  if (!can_redraw_ || kind_ == Kind::broken) return;
  pending_ += open_lines_.leave();
  is_redraw_due_ = !open_lines_.is_empty();
  if (!is_waiting_ && !pending_.empty()) push();
}

std::optional<TerminalSize> ConsoleWriter::terminal_size() const {
  return is_terminal_ ? std::optional(size_of(fd_)) : std::nullopt;
}

void ConsoleWriter::forget(const LinePrefixer& source) {
  open_lines_.set(&source, "");
  if (open_line_ == &source) open_line_ = source.is_inside_line() ? &ended_ : nullptr;
}

void ConsoleWriter::push() {
  if (pending_.empty() && is_redraw_due_) redraw();
  while (!pending_.empty()) {
    const ssize_t written = write_some();
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return watch();
    if (written < 0) {
      give_up(errno);
      break;
    }
    remove_written(static_cast<std::size_t>(written));
    if (pending_.empty()) announce_dropped();
    if (pending_.empty() && is_redraw_due_) redraw();
  }
  idle_.notify_all();
}

asio::awaitable<void> ConsoleWriter::drain(Deadline deadline) {
  const auto self = shared_from_this();
  while (!is_idle() && !deadline.passed()) co_await idle_.wait_until(deadline);
}

void ConsoleWriter::remove_written(std::size_t bytes) {
  const bool was_full = is_full();
  taken_ += bytes;
  // Not done after each write, which would repeatedly move the rest.
  if (taken_ == pending_.size() || taken_ >= kConsoleBytesMax) {
    pending_.erase(0, taken_);
    taken_ = 0;
  }
  if (!was_full) return;
  if (is_full()) {
    restart_patience();
  } else {
    patience_.cancel();
    room_.notify_all();
  }
}

/// The limit starts now; earlier time does not count.
void ConsoleWriter::restart_patience() {
  patience_.expires_after(kConsolePatience);
  patience_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->has_patience_ = false;
    self->room_.notify_all();
  });
}

void ConsoleWriter::give_up(int error) {
  // First, since the warning may come back here as a line to be shown.
  kind_ = Kind::broken;
  has_lost_output_ = error != EPIPE && !(error == EIO && is_terminal_);
  pending_.clear();
  taken_ = dropped_lines_ = dropped_bytes_ = 0;
  is_redraw_due_ = false;
  open_line_ = nullptr;
  patience_.cancel();
  room_.notify_all();
  write_log(
      log_, LogLevel::warn,
      std::string("console: ") + std::strerror(error) + "; the workers' output is no longer shown");
}

ssize_t ConsoleWriter::write_some() {
  const char* bytes = pending_.data() + taken_;
  if (kind_ != Kind::guarded) return quiet_write(fd_, bytes, buffered_bytes());
  if (!is_ready(fd_)) {
    errno = EAGAIN;
    return -1;
  }
  return quiet_write(fd_, bytes, std::min(buffered_bytes(), kGuardedBytes));
}

void ConsoleWriter::watch() {
  is_waiting_ = true;
  readiness_.async_wait(asio::posix::descriptor_base::wait_read,
                        [self = shared_from_this()](boost::system::error_code error) {
                          self->is_waiting_ = false;
                          if (error) return;
                          epoll_event seen{};
                          ::epoll_wait(self->readiness_.native_handle(), &seen, 1, 0);
                          self->push();
                        });
}

void ConsoleWriter::announce_dropped() {
  has_patience_ = true;
  if (dropped_bytes_ == 0) return;
  if (open_line_ != nullptr) {
    pending_ = '\n';
    std::exchange(open_line_, nullptr)->interrupt();
  }
  pending_ += open_lines_.erase();
  pending_ += "[ddprun] " + std::to_string(dropped_lines_) + " lines (" +
              std::to_string(dropped_bytes_) +
              " bytes) of output are missing here: the console did not accept them in time\n";
  dropped_lines_ = dropped_bytes_ = 0;
  is_redraw_due_ = !open_lines_.is_empty();
}

}  // namespace ddprun
