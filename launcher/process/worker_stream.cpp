#include "launcher/process/worker_stream.hpp"

#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

// What a worker can write while the agent is busy elsewhere. The kernel may grant less.
constexpr int kPipeBytes = 256 << 10;
// What is read from one stream before the others get their turn.
constexpr std::size_t kReadBytes = 64U << 10;
// Long enough that a line written in pieces stays whole, short enough for a prompt.
constexpr auto kPartialLineWait = std::chrono::milliseconds(100);
// How often a progress bar is shown where it cannot be drawn over: a file of a day's training then
// holds some thousand lines of it, and somebody who looks at it knows how far it is.
constexpr auto kProgressBarWait = std::chrono::seconds(10);

int open_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) throw_system_error("worker output: " + path.string(), errno);
  return fd;
}

}  // namespace

WorkerStream::WorkerStream(const asio::any_io_executor& executor, const StreamSpec& spec,
                           std::shared_ptr<ConsoleWriter> console, Log log)
    : log_(std::move(log)),
      console_(std::move(console)),
      prefixer_(spec.prefix),
      pipe_(executor),
      partial_line_(executor),
      end_signal_(executor, asio::steady_timer::time_point::max()) {
  if (spec.target != StreamTarget::console) {
    file_name_ = spec.file.string();
    file_ = open_file(spec.file);
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    if (file_ >= 0) ::close(file_);
    throw_system_error("worker output: pipe", error);
  }
  ::fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  pipe_.assign(ends[0]);
  worker_end_ = ends[1];
}

WorkerStream::~WorkerStream() {
  close_worker_end();
  if (console_) console_->forget(prefixer_);
  if (file_ >= 0) ::close(file_);
}

void WorkerStream::close_worker_end() {
  if (worker_end_ >= 0) ::close(std::exchange(worker_end_, -1));
}

void WorkerStream::start() {
  read_more();
}

void WorkerStream::read_more() {
  if (console_ && console_->is_full()) return read_when_there_is_room();
  pipe_.async_wait(asio::posix::descriptor_base::wait_read,
                   [self = shared_from_this()](boost::system::error_code error) {
                     if (error || self->has_ended_) return;
                     // Another stream may have filled the console in the same turn of the loop.
                     if (self->console_ && self->console_->is_full()) return self->read_more();
                     if (self->read_some()) self->read_more();
                   });
}

/// Meanwhile the pipe fills and the worker waits.
void WorkerStream::read_when_there_is_room() {
  console_->room_signal().async_wait([weak = weak_from_this()](boost::system::error_code) {
    const auto self = weak.lock();
    if (self && !self->has_ended_) self->read_more();
  });
}

/// False if there is no more to come.
bool WorkerStream::read_some() {
  std::array<char, kReadBytes> bytes;
  const ssize_t count = ::read(pipe_.native_handle(), bytes.data(), bytes.size());
  if (count > 0) take({bytes.data(), static_cast<std::size_t>(count)});
  const bool may_follow = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  if (!may_follow) end();
  return may_follow;
}

void WorkerStream::take(std::string_view bytes) {
  write_file(bytes);
  last_.take(bytes);
  if (!console_) return;
  console_->write(prefixer_, prefixer_.take(bytes, std::chrono::system_clock::now()));
  if (console_->can_redraw()) {
    console_->show(prefixer_, prefixer_.open_line());
  } else if (prefixer_.has_news()) {
    flush_soon();
  }
}

void WorkerStream::write_file(std::string_view bytes) {
  while (file_ >= 0 && !bytes.empty()) {
    const ssize_t written = quiet_write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (file_bytes_lost_ == 0) {
        write_log(log_, LogLevel::warn,
                  file_name_ + ": " + std::strerror(errno) +
                      "; output is missing from it, the worker goes on");
      }
      file_bytes_lost_ += bytes.size();
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void WorkerStream::flush_soon() {
  // Not anew for each piece: a line that keeps growing must appear, too.
  if (std::exchange(is_flush_due_, true)) return;
  const bool is_bar = prefixer_.is_rewritten();
  partial_line_.expires_after(is_bar ? kProgressBarWait : kPartialLineWait);
  partial_line_.async_wait([weak = weak_from_this(), is_bar](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->is_flush_due_ = false;
    if (self->prefixer_.is_rewritten() && !is_bar) return self->flush_soon();
    self->console_->write(self->prefixer_, self->prefixer_.flush());
  });
}

void WorkerStream::end() {
  if (std::exchange(has_ended_, true)) return;
  partial_line_.cancel();
  pipe_.close();
  if (console_) {
    console_->write(prefixer_, prefixer_.finish());
    console_->forget(prefixer_);
  }
  if (file_bytes_lost_ > 0) {
    write_log(log_, LogLevel::warn,
              file_name_ + ": lacks " + std::to_string(file_bytes_lost_) + " bytes");
  }
  end_signal_.cancel();
}

asio::awaitable<bool> WorkerStream::wait_for_end(Deadline deadline) {
  const auto self = shared_from_this();
  if (!has_ended_) {
    boost::system::error_code ignored;
    end_signal_.expires_at(deadline.time());
    co_await end_signal_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return has_ended_;
}

void WorkerStream::finish() {
  // A descendant that goes on writing must not keep this up for ever.
  constexpr int kLastReads = 2 * kPipeBytes / static_cast<int>(kReadBytes);
  for (int i = 0; i < kLastReads && !has_ended_ && read_some(); ++i) {
  }
  end();
}

}  // namespace ddprun
