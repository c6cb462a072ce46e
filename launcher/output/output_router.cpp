#include "launcher/output/output_router.hpp"

#include "launcher/output/console_writer.hpp"
#include "launcher/output/log_writer.hpp"
#include "launcher/output/worker_stream.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;

std::shared_ptr<ConsoleWriter> make_writer(const asio::any_io_executor& executor, int fd,
                                           bool can_redraw, const Log& log) {
  return std::make_shared<ConsoleWriter>(executor, fd, can_redraw && ::isatty(fd) != 0, log);
}

bool are_the_same(int a, int b) {
  struct stat status_a {
  }, status_b{};
  return ::fstat(a, &status_a) == 0 && ::fstat(b, &status_b) == 0 &&
         status_a.st_dev == status_b.st_dev && status_a.st_ino == status_b.st_ino;
}

}  // namespace

class OutputRouter::Impl {
 public:
  Impl(asio::any_io_executor executor, Console console, Log log)
      : executor_(std::move(executor)),
        log_(std::move(log)),
        out_(make_writer(executor_, console.standard_output, console.can_redraw, log_)),
        // One queue for one destination: lines of the two streams must not mix.
        error_(are_the_same(console.standard_output, console.standard_error)
                   ? out_
                   : make_writer(executor_, console.standard_error, console.can_redraw, log_)) {}

  ~Impl() {
    out_->close();
    error_->close();
    if (logs_) logs_->stop();
  }

  std::shared_ptr<WorkerStream> open(const StreamSpec& spec, StreamKind kind) {
    std::shared_ptr<ConsoleWriter> console;
    if (spec.is_shown && spec.target != StreamTarget::file)
      console = kind == StreamKind::standard_output ? out_ : error_;
    const bool has_file = spec.target != StreamTarget::console || !spec.filtered_file.empty();
    return std::make_shared<WorkerStream>(executor_, spec, std::move(console),
                                          has_file ? logs() : nullptr);
  }

  void write(std::string_view lines) { error_->write(own_lines_, std::string(lines)); }

  std::optional<TerminalSize> terminal_size(StreamKind kind) const {
    return (kind == StreamKind::standard_output ? out_ : error_)->terminal_size();
  }

  void leave_terminal() {
    out_->leave_terminal();
    if (error_ != out_) error_->leave_terminal();
  }

  bool has_lost_output() const {
    return out_->has_lost_output() || error_->has_lost_output() ||
           (logs_ && logs_->has_lost_output());
  }

  asio::awaitable<void> drain(Deadline deadline) {
    if (logs_) co_await logs_->drain();  // first: its reports are shown on the console
    co_await out_->drain(deadline);
    co_await error_->drain(deadline);
  }

 private:
  /// Created on demand: most runs have no log files.
  const std::shared_ptr<LogWriter>& logs() {
    if (!logs_) {
      logs_ = std::make_shared<LogWriter>(executor_, log_);
      logs_->start();
    }
    return logs_;
  }

  asio::any_io_executor executor_;
  Log log_;
  std::shared_ptr<LogWriter> logs_;
  std::shared_ptr<ConsoleWriter> out_;
  std::shared_ptr<ConsoleWriter> error_;
  LinePrefixer own_lines_{""};
};

OutputRouter::OutputRouter(asio::any_io_executor executor, Console console, Log log)
    : impl_(std::make_unique<Impl>(std::move(executor), console, std::move(log))) {}

OutputRouter::~OutputRouter() = default;

std::shared_ptr<WorkerStream> OutputRouter::open(const StreamSpec& spec, StreamKind kind) {
  return impl_->open(spec, kind);
}

void OutputRouter::write(std::string_view lines) {
  impl_->write(lines);
}

std::optional<TerminalSize> OutputRouter::terminal_size(StreamKind kind) const {
  return impl_->terminal_size(kind);
}

void OutputRouter::leave_terminal() {
  impl_->leave_terminal();
}

bool OutputRouter::has_lost_output() const {
  return impl_->has_lost_output();
}

asio::awaitable<void> OutputRouter::drain(Deadline deadline) {
  return impl_->drain(deadline);
}

}  // namespace ddprun
