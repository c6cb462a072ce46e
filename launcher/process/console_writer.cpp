#include "launcher/process/console_writer.hpp"

#include "rendezvous/base/quiet_write.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

// A terminal that says it is ready takes at least this much without blocking, even if each byte
// becomes two (newline to carriage return and newline); a pipe takes 4,096.
constexpr std::size_t kGuardedBytes = 128;

bool is_ready(int fd) {
  pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&ready, 1, 0) > 0;
}

}  // namespace

ConsoleWriter::ConsoleWriter(const asio::any_io_executor& executor, int fd, Log log)
    : log_(std::move(log)), fd_(fd), readiness_(executor), idle_signal_(executor) {
  idle_signal_.expires_at(asio::steady_timer::time_point::max());
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return;
  readiness_.assign(epoll);
  open_anew(fd);
  epoll_event interest{.events = EPOLLOUT | EPOLLET, .data = {}};
  // The kernel refuses to watch what never blocks.
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &interest) != 0) kind_ = Kind::file;
}

void ConsoleWriter::close() {
  boost::system::error_code ignored;
  readiness_.cancel(ignored);
}

ConsoleWriter::~ConsoleWriter() {
  if (is_owner_) ::close(fd_);
}

void ConsoleWriter::open_anew(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    kind_ = Kind::broken;
    return;
  }
  // A regular file has its position in the shared description, which must go on being used.
  if (S_ISREG(status.st_mode)) return;
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
  // Once lines are missing nothing is taken until the console has caught up: the notice then stands
  // where they are missing.
  if (dropped_bytes_ > 0 || pending_.size() + text.size() > kConsoleBytesMax) {
    dropped_lines_ += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    dropped_bytes_ += text.size();
    source.interrupt();
    return;
  }
  if (open_line_ != nullptr && open_line_ != &source) {
    pending_ += '\n';
    open_line_->interrupt();
  }
  pending_ += text;
  open_line_ = source.is_inside_line() ? &source : nullptr;
  if (!is_waiting_) push();
}

void ConsoleWriter::forget(const LinePrefixer& source) {
  if (open_line_ != &source) return;
  open_line_ = nullptr;
  pending_ += '\n';
  if (!is_waiting_) push();
}

void ConsoleWriter::push() {
  while (!pending_.empty()) {
    const ssize_t written = write_some();
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return watch();
    if (written < 0) {
      give_up(std::strerror(errno));
      break;
    }
    pending_.erase(0, static_cast<std::size_t>(written));
    if (pending_.empty()) announce_dropped();
  }
  idle_signal_.cancel();
}

void ConsoleWriter::give_up(const char* reason) {
  // First of all, as the warning may come back here as a line to be shown.
  kind_ = Kind::broken;
  pending_.clear();
  dropped_lines_ = dropped_bytes_ = 0;
  open_line_ = nullptr;
  write_log(log_, LogLevel::warn,
            std::string("console: ") + reason + "; the workers' output is not shown any more");
}

ssize_t ConsoleWriter::write_some() {
  if (kind_ != Kind::guarded) return quiet_write(fd_, pending_.data(), pending_.size());
  if (!is_ready(fd_)) {
    errno = EAGAIN;
    return -1;
  }
  return quiet_write(fd_, pending_.data(), std::min(pending_.size(), kGuardedBytes));
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
  if (dropped_bytes_ == 0) return;
  if (open_line_ != nullptr) {
    pending_ = '\n';
    std::exchange(open_line_, nullptr)->interrupt();
  }
  pending_ += "[ddprun] " + std::to_string(dropped_lines_) + " lines (" +
              std::to_string(dropped_bytes_) +
              " bytes) of output are missing here: the console did not take them in time\n";
  dropped_lines_ = dropped_bytes_ = 0;
}

}  // namespace ddprun
