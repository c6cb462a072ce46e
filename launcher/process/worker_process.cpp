#include "launcher/process/worker_process.hpp"

#include "launcher/process/start_steps.hpp"
#include <ddprun/error.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/process/v2/process.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <linux/sched.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
namespace process_api = boost::process::v2;

using Executor = asio::any_io_executor;
using Process = process_api::basic_process<Executor>;

// How much more likely than the agent a worker is to be killed when memory runs out, in
// thousandths of the memory.
constexpr int kOomScoreAboveAgent = 100;
// How long the destructor waits for a process that it has killed: then it is left to init.
constexpr auto kReapLimit = std::chrono::seconds(1);

/// What the child writes into the status pipe if it cannot get past exec.
struct StatusRecord {
  StartStep step;
  int error_number;
};

/// A descriptor that is closed unless it is handed on.
class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::vector<const char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const auto& string : strings) pointers.push_back(string.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<unsigned long> cpu_mask_of(const std::vector<int>& cpus) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask;
  for (const int cpu : cpus) {
    const auto word = static_cast<std::size_t>(cpu / kBits);
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1UL << (cpu % kBits);
  }
  return mask;
}

std::string oom_score_of_worker() {
  int own = 0;
  std::ifstream("/proc/self/oom_score_adj") >> own;
  return std::to_string(std::min(own + kOomScoreAboveAgent, 1000));
}

/// Waits until the descriptor can be read; false if the deadline passes. A signal to the agent that
/// comes meanwhile changes nothing.
bool wait_until_readable(int fd, Deadline deadline) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  int count = 0;
  do {
    count = ::poll(&ready, 1, deadline.remaining_poll_milliseconds());
  } while (count < 0 && errno == EINTR);
  return count > 0;
}

int highest_descriptor() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

rlimit worker_limit(std::uint64_t open_files_max) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (open_files_max > 0) limit.rlim_cur = std::min<rlim_t>(open_files_max, limit.rlim_max);
  return limit;
}

/// A launcher in the manner of Boost.Process v2: called with a program, its arguments and
/// initialisers it returns a process. Its own launchers do not serve here: they tell Asio of the
/// fork in the child, which in the vfork form damages the parent's reactor; they call exit() when
/// exec fails, leak descriptors between two that are kept, and know neither pidfd nor cgroup.
struct PidfdLauncher {
  const char* const* environment = nullptr;
  int cgroup_fd = -1;
  bool may_use_clone3 = true;
  UniqueFd pidfd;
  UniqueFd status;
  StartFailure failure;
  pid_t pid = -1;

  template <typename... Initialisers>
  Process operator()(const Executor& executor, const char* program, const char* const* arguments,
                     const Initialisers&... initialisers) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return failed(executor);
    status = UniqueFd(pipe[0]);
    UniqueFd status_writer(pipe[1]);
    // Process opens a pidfd of its own after the fork, which is too late to learn that none is
    // left.
    UniqueFd reserved(::fcntl(pipe[0], F_DUPFD_CLOEXEC, 0));
    if (reserved.get() < 0) return failed(executor);
    // The agent's handlers must not run in the child.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork_with_pidfd();
    if (pid == 0) run_child(status_writer.get(), program, arguments, initialisers...);
    const int error_number = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) {
      errno = error_number;
      return failed(executor);
    }
    status_writer = UniqueFd();
    reserved = UniqueFd();
    return Process(executor, pid);
  }

 private:
  Process failed(const Executor& executor) {
    failure = {.step = StartStep::fork, .error_number = errno};
    return Process(executor);
  }

  /// A plain copy of the process rather than one that shares its memory until exec: with an agent
  /// of a few MiB the copy costs some 0.1 ms and nothing that the child does can harm the parent.
  pid_t fork_with_pidfd() {
    int fd = -1;
    clone_args arguments{};
    arguments.flags = CLONE_PIDFD;
    arguments.pidfd = reinterpret_cast<std::uintptr_t>(&fd);
    arguments.exit_signal = SIGCHLD;
    if (cgroup_fd >= 0) {
      arguments.flags |= CLONE_INTO_CGROUP;
      arguments.cgroup = static_cast<std::uint64_t>(cgroup_fd);
    }
    long child = -1;
    errno = ENOSYS;
    if (may_use_clone3) child = ::syscall(SYS_clone3, &arguments, sizeof(arguments));
    // Some sandboxes answer EPERM to what they do not know.
    if (child < 0 && (errno == ENOSYS || errno == EPERM)) {
      child = ::syscall(SYS_clone, SIGCHLD | CLONE_PIDFD, nullptr, &fd, nullptr, nullptr);
      is_born_outside = true;
    }
    if (child > 0) pidfd = UniqueFd(fd);
    return static_cast<pid_t>(child);
  }

  template <typename... Initialisers>
  [[noreturn]] void run_child(int status_fd, const char* program, const char* const* arguments,
                              const Initialisers&... initialisers) {
    StatusRecord record{};
    auto succeeds = [&](const auto& initialiser) {
      const auto error = initialiser.on_exec_setup(*this, program, arguments);
      record = {.step = initialiser.kStep, .error_number = error.value()};
      return error.value() == 0;
    };
    if ((succeeds(initialisers) && ...)) {
      const std::uint64_t empty_mask = 0;
      ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &empty_mask, nullptr, sizeof(empty_mask));
      ::syscall(SYS_execve, program, arguments, environment);
      record = {.step = StartStep::exec, .error_number = errno};
    }
    ::syscall(SYS_write, status_fd, &record, sizeof(record));
    while (true) ::syscall(SYS_exit_group, 127);
  }

 public:
  bool is_born_outside = false;  ///< of the cgroup
};

/// Enters the cgroup unless the kernel has done it.
struct EnterCgroupIfOutside {
  static constexpr StartStep kStep = StartStep::cgroup;

  template <typename Path>
  boost::system::error_code on_exec_setup(PidfdLauncher& launcher, const Path& program,
                                          const char* const* arguments) const {
    const start_steps::EnterCgroup enter{launcher.is_born_outside ? launcher.cgroup_fd : -1};
    return enter.on_exec_setup(launcher, program, arguments);
  }
};

}  // namespace

const char* to_string(StartStep step) noexcept {
  switch (step) {
    case StartStep::fork:
      return "fork";
    case StartStep::parent_death:
      return "parent-death signal";
    case StartStep::session:
      return "setsid";
    case StartStep::signals:
      return "signals";
    case StartStep::cgroup:
      return "cgroup";
    case StartStep::affinity:
      return "affinity";
    case StartStep::standard_streams:
      return "standard streams";
    case StartStep::descriptors:
      return "descriptors";
    case StartStep::limits:
      return "limits";
    case StartStep::folder:
      return "chdir";
    case StartStep::exec:
      return "exec";
  }
  return "unknown";
}

class WorkerProcess::Impl {
 public:
  Impl(Process process, PidfdLauncher& launcher, const Executor& executor)
      : process_(std::move(process)),
        pid_(launcher.pid),
        pidfd_(executor, launcher.pidfd.release()),
        status_(std::move(launcher.status)) {}

  ~Impl() {
    close();
    // Its destructor would wait for as long as it takes.
    process_.detach();
  }

  std::optional<StartFailure> wait_for_exec(Deadline deadline) {
    const bool has_answered = wait_until_readable(status_.get(), deadline);
    StatusRecord record{};
    if (has_answered && ::read(status_.get(), &record, sizeof(record)) == 0) {
      status_ = UniqueFd();
      return std::nullopt;
    }
    kill_and_reap();
    if (!has_answered) return StartFailure{.step = StartStep::exec, .error_number = ETIMEDOUT};
    return StartFailure{.step = record.step, .error_number = record.error_number};
  }

  asio::awaitable<void> wait_for_end() {
    // Asio may report the readiness of a descriptor that was closed in the same turn of its loop
    // for the one that was registered in its place, so each report is checked.
    do {
      boost::system::error_code error;
      co_await pidfd_.async_wait(asio::posix::descriptor_base::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
      if (error || is_reaped_) throw Error(Errc::closed, "worker process: its handle was closed");
    } while (!has_ended());
  }

  bool has_ended() {
    return is_reaped_ || wait_until_readable(pidfd_.native_handle(), Deadline::after({}));
  }

  ProcessExit reap() {
    siginfo_t info{};
    rusage usage{};
    // The C library's waitid() has no place for the resource usage. Looking first and letting
    // Boost.Process reap keeps its idea of the process true.
    ::syscall(SYS_waitid, P_PIDFD, pidfd_.native_handle(), &info, WEXITED | WNOWAIT, &usage);
    boost::system::error_code ignored;
    process_.wait(ignored);
    is_reaped_ = true;
    const bool was_signaled = info.si_code != CLD_EXITED;
    return {.exit_code = was_signaled ? 0 : info.si_status,
            .signal = was_signaled ? info.si_status : 0,
            .has_dumped_core = info.si_code == CLD_DUMPED,
            .peak_memory_bytes = usage.ru_maxrss * 1024L};
  }

  void kill_group_if_killed() noexcept {
    siginfo_t info{};
    // The number cannot be given to another group before the process has been reaped.
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == pid_ && info.si_code != CLD_EXITED) signal_group(SIGKILL);
  }

  void signal_group(int signal) noexcept {
    if (!is_reaped_) ::kill(-pid_, signal);
  }

  pid_t pid() const { return pid_; }

  void close() noexcept {
    if (!is_reaped_) kill_and_reap();
    boost::system::error_code ignored;
    pidfd_.close(ignored);
  }

 private:
  void kill_and_reap() noexcept {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // it may not have its own group yet
    if (wait_until_readable(pidfd_.native_handle(), Deadline::after(kReapLimit)))
      ::waitpid(pid_, nullptr, 0);
    is_reaped_ = true;
  }

  Process process_;
  pid_t pid_;
  asio::posix::stream_descriptor pidfd_;
  UniqueFd status_;
  bool is_reaped_ = false;
};

std::variant<WorkerProcess, StartFailure> WorkerProcess::start(const Executor& executor,
                                                               const ProcessRequest& request) {
  const auto arguments = pointers_to(request.arguments);
  const auto environment = pointers_to(request.environment);
  const auto cpu_mask = cpu_mask_of(request.cpus);
  const auto oom_score = oom_score_of_worker();
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));

  PidfdLauncher launcher;
  launcher.environment = environment.data();
  launcher.cgroup_fd = request.cgroup_fd;
  launcher.may_use_clone3 = request.may_use_clone3;
  namespace steps = start_steps;
  auto process = launcher(
      executor, arguments[0], arguments.data(), steps::DieWithParent{::getpid()},
      steps::OwnSession{}, steps::DefaultSignals{}, EnterCgroupIfOutside{},
      steps::Placement{cpu_mask, oom_score},
      steps::StandardStreams{null.get(), request.standard_output, request.standard_error},
      steps::OtherDescriptors{request.kept_descriptor, highest_descriptor()},
      steps::OpenFiles{worker_limit(request.open_files_max)}, steps::Folder{request.folder});
  if (launcher.pid < 0) return launcher.failure;
  return WorkerProcess(std::make_unique<Impl>(std::move(process), launcher, executor));
}

WorkerProcess::WorkerProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerProcess::WorkerProcess(WorkerProcess&&) noexcept = default;
WorkerProcess& WorkerProcess::operator=(WorkerProcess&&) noexcept = default;
WorkerProcess::~WorkerProcess() = default;

std::optional<StartFailure> WorkerProcess::wait_for_exec(Deadline deadline) {
  return impl_->wait_for_exec(deadline);
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

void WorkerProcess::kill_group_if_killed() noexcept {
  impl_->kill_group_if_killed();
}

ProcessExit WorkerProcess::reap() {
  return impl_->reap();
}

void WorkerProcess::close() noexcept {
  impl_->close();
}

void WorkerProcess::signal_group(int signal) noexcept {
  impl_->signal_group(signal);
}

}  // namespace ddprun
