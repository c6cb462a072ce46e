#include "launcher/process/worker_process.hpp"

#include <ddprun/error.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/process/v2/process.hpp>
#include <boost/system/system_error.hpp>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
namespace process_api = boost::process::v2;

using Executor = asio::any_io_executor;
using Process = process_api::basic_process<Executor>;

// Maximum time that the destructor waits for a killed process, which is then left to init.
constexpr auto kReapLimit = std::chrono::seconds(1);

// The kernel does not report when a tracer lets go of a process that has ended.
constexpr auto kTracedPause = std::chrono::milliseconds(20);

/// Waits until the descriptor is readable; returns false at the deadline. Signals to the agent do
/// not interrupt the wait.
bool wait_until_readable(int fd, Deadline deadline) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  int count = 0;
  do {
    count = ::poll(&ready, 1, deadline.remaining_poll_milliseconds());
  } while (count < 0 && errno == EINTR);
  return count > 0;
}

}  // namespace

class WorkerProcess::Impl {
 public:
  /// Takes the descriptors of `forked` unless it throws boost::system::system_error.
  Impl(ForkedProcess& forked, const Executor& executor)
      : process_(executor, forked.pid), pid_(forked.pid), pidfd_(executor), traced_(executor) {
    pidfd_.assign(forked.pidfd.get());
    forked.pidfd.release();
    status_ = std::move(forked.status);
  }

  ~Impl() {
    close(Deadline::after(kReapLimit));
    // Its destructor would wait without limit.
    process_.detach();
  }

  int exec_notice() const { return status_.get(); }

  std::optional<StartFailure> start_failure() {
    const UniqueFd status = std::move(status_);
    const bool has_answered = wait_until_readable(status.get(), Deadline::after({}));
    StatusRecord record{};
    if (has_answered && ::read(status.get(), &record, sizeof(record)) == 0) return std::nullopt;
    signal_group(SIGKILL);
    if (!has_answered) return StartFailure{.step = StartStep::exec, .error_number = ETIMEDOUT};
    return StartFailure{.step = record.step, .error_number = record.error_number};
  }

  asio::awaitable<void> wait_for_end() {
    boost::system::error_code error;
    // Asio may report the readiness of a descriptor that was closed in the same iteration of its
    // loop for the one that replaced it, so each report is checked.
    while (true) {
      co_await pidfd_.async_wait(asio::posix::descriptor_base::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error || is_reaped_) break;
      if (has_ended()) co_return;
      traced_.expires_after(kTracedPause);
      co_await traced_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (error) break;
    }
    throw Error(Errc::closed, "worker process: its handle was closed");
  }

  /// The descriptor is readable also while another process traces a zombie, which its parent cannot
  /// reap before the tracer does.
  bool has_ended() noexcept {
    if (is_reaped_) return true;
    siginfo_t info{};
    return ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.native_handle()), &info,
                    WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
  }

  ProcessExit reap() {
    siginfo_t info{};
    rusage usage{};
    // The C library's waitid() does not return the resource usage. Reading it first and letting
    // Boost.Process reap keeps the latter's state correct.
    const long looked =
        ::syscall(SYS_waitid, P_PIDFD, pidfd_.native_handle(), &info, WEXITED | WNOWAIT, &usage);
    const int wait_error = looked == 0 ? 0 : errno;
    boost::system::error_code ignored;
    process_.wait(ignored);
    is_reaped_ = true;
    if (wait_error != 0) return {.exit_code = kUnknownExitCode, .wait_error = wait_error};
    const bool was_signaled = info.si_code != CLD_EXITED;
    return {.exit_code = was_signaled ? 0 : info.si_status,
            .signal = was_signaled ? info.si_status : 0,
            .has_dumped_core = info.si_code == CLD_DUMPED,
            .peak_memory_bytes = usage.ru_maxrss * 1024L};
  }

  void end_group_if_killed() noexcept {
    siginfo_t info{};
    // The group ID cannot be reused before the process has been reaped.
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == pid_ && info.si_code != CLD_EXITED) signal_group(SIGTERM);
  }

  void signal_group(int signal) noexcept {
    if (!owns_number()) return;
    // Shortly after the fork it has no process group of its own.
    if (::kill(-pid_, signal) != 0) {
      ::syscall(SYS_pidfd_send_signal, pidfd_.native_handle(), signal, nullptr, 0);
    }
  }

  pid_t pid() const { return pid_; }

  void close(Deadline deadline) noexcept {
    if (!is_reaped_) {
      signal_group(SIGKILL);
      siginfo_t info{};
      wait_until_readable(pidfd_.native_handle(), deadline);
      ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.native_handle()), &info, WEXITED | WNOHANG);
      is_reaped_ = true;
    }
    boost::system::error_code ignored;
    pidfd_.close(ignored);
    traced_.cancel();
  }

 private:
  /// Returns false once the process has been reaped, here or by other code.
  bool owns_number() noexcept {
    if (is_reaped_) return false;
    siginfo_t info{};
    const int waited = ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.native_handle()), &info,
                                WEXITED | WNOHANG | WNOWAIT);
    return waited == 0 || errno != ECHILD;
  }

  Process process_;
  pid_t pid_;
  asio::posix::stream_descriptor pidfd_;
  asio::steady_timer traced_;
  UniqueFd status_;
  bool is_reaped_ = false;
};

std::variant<WorkerProcess, StartFailure> WorkerProcess::start(const Executor& executor,
                                                               const ProcessRequest& request) {
  // Reserved for the pidfd that Process opens after the fork, when exhaustion is fatal.
  UniqueFd reserved(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (reserved.get() < 0) return StartFailure{.step = StartStep::fork, .error_number = errno};
  auto forked = fork_process(request);
  if (const auto* failure = std::get_if<StartFailure>(&forked)) return *failure;
  reserved = UniqueFd();
  return adopt(executor, std::move(std::get<ForkedProcess>(forked)));
}

WorkerProcess WorkerProcess::adopt(const Executor& executor, ForkedProcess forked) {
  try {
    return WorkerProcess(std::make_unique<Impl>(forked, executor));
  } catch (const boost::system::system_error& error) {  // such as the limit of epoll
    const int pidfd = forked.pidfd.get();
    ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
    wait_until_readable(pidfd, Deadline::after(kReapLimit));
    siginfo_t info{};
    ::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG);
    throw_system_error("worker process: its descriptor", error.code().value());
  }
}

WorkerProcess::WorkerProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerProcess::WorkerProcess(WorkerProcess&&) noexcept = default;
WorkerProcess& WorkerProcess::operator=(WorkerProcess&&) noexcept = default;
WorkerProcess::~WorkerProcess() = default;

int WorkerProcess::exec_notice() const {
  return impl_->exec_notice();
}

std::optional<StartFailure> WorkerProcess::start_failure() {
  return impl_->start_failure();
}

pid_t WorkerProcess::pid() const {
  return impl_->pid();
}

asio::awaitable<void> WorkerProcess::wait_for_end() {
  return impl_->wait_for_end();
}

bool WorkerProcess::has_ended() const {
  return impl_->has_ended();
}

void WorkerProcess::end_group_if_killed() noexcept {
  impl_->end_group_if_killed();
}

ProcessExit WorkerProcess::reap() {
  return impl_->reap();
}

void WorkerProcess::close(Deadline deadline) noexcept {
  impl_->close(deadline);
}

void WorkerProcess::signal_group(int signal) noexcept {
  impl_->signal_group(signal);
}

}  // namespace ddprun
