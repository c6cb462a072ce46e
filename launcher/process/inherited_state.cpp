#include "launcher/process/inherited_state.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

namespace {

/// A closed descriptor below 3 would be reused for the next opened file, and workers would treat
/// that as a standard stream.
void open_missing_standard_streams() noexcept {
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::dup(fd);
  if (fd > STDERR_FILENO) ::close(fd);
}

/// Ignored on purpose: by nohup, or by a parent without a terminal.
constexpr std::array kMayStayIgnored = {SIGHUP, SIGTSTP, SIGTTIN, SIGTTOU};

/// If SIGCHLD is ignored, for example, the exit status of workers is lost.
void reset_signals() noexcept {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) continue;
    if (std::find(kMayStayIgnored.begin(), kMayStayIgnored.end(), signal) !=
        kMayStayIgnored.end()) {
      continue;
    }
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

/// Returns true if a sandbox has rejected the call; other errors result from the probe's arguments.
bool is_refusal(long result) {
  return result < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS);
}

/// Returns the name of the first rejected system call, with its error in errno, or null.
const char* refused_system_call() {
  const UniqueFd event(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.get() < 0) return is_refusal(-1) ? "eventfd2" : nullptr;
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (is_refusal(epoll.get())) return "epoll_create1";
  epoll_event wanted{.events = EPOLLIN, .data = {}};
  if (is_refusal(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &wanted))) {
    return "epoll_ctl";
  }
  if (is_refusal(::epoll_wait(epoll.get(), &wanted, 1, 0))) return "epoll_wait";
  const UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec at_once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 1}};
  if (timer.get() >= 0 && is_refusal(::timerfd_settime(timer.get(), 0, &at_once, nullptr))) {
    return "timerfd_settime";
  }
  const UniqueFd memory(::memfd_create("ddprun-probe", MFD_CLOEXEC));
  if (is_refusal(memory.get())) return "memfd_create";
  pollfd ready{.fd = event.get(), .events = POLLIN, .revents = 0};
  if (is_refusal(::poll(&ready, 1, 0))) return "poll";
  if (is_refusal(::accept4(event.get(), nullptr, nullptr, SOCK_CLOEXEC))) return "accept4";
  int is_on = 1;
  if (is_refusal(::ioctl(event.get(), FIONBIO, &is_on))) return "ioctl";
  const UniqueFd copy(::fcntl(event.get(), F_DUPFD_CLOEXEC, 0));
  if (is_refusal(copy.get())) return "fcntl";
  if (is_refusal(::dup3(event.get(), copy.get(), O_CLOEXEC))) return "dup3";
  rlimit limit{};
  if (is_refusal(::prlimit(0, RLIMIT_NOFILE, nullptr, &limit))) return "prlimit64";
  int signal = 0;
  if (is_refusal(::prctl(PR_GET_PDEATHSIG, &signal))) return "prctl";
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (is_refusal(pidfd.get())) return "pidfd_open";
  if (is_refusal(::syscall(SYS_pidfd_send_signal, pidfd.get(), 0, nullptr, 0))) {
    return "pidfd_send_signal";
  }
  if (is_refusal(::kill(::getpid(), 0))) return "kill";
  siginfo_t info{};
  if (is_refusal(::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT))) return "waitid";
  // May reap one child that the program before exec() has left.
  int status = 0;
  if (is_refusal(::wait4(-1, &status, WNOHANG, nullptr))) return "wait4";
  return nullptr;
}

}  // namespace

void reset_inherited_state() noexcept {
  open_missing_standard_streams();
  reset_signals();
}

void end_with_parent() noexcept {
  const char* const parent = ::getenv("DDPRUN_PARENT");
  if (parent == nullptr) return;
  const auto pid = std::strtol(parent, nullptr, 10);
  ::unsetenv("DDPRUN_PARENT");
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != pid) ::raise(SIGTERM);
}

void raise_limit_of_open_files() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::optional<std::string> system_problem() {
  if (const char* name = refused_system_call()) {
    return "system call " + std::string(name) + ": " + std::strerror(errno) +
           "; allow it in the seccomp profile or the security module of this sandbox";
  }
  if (::access("/proc/self/stat", R_OK) != 0) {
    return "/proc: " + std::string(std::strerror(errno)) +
           "; mount it (mount -t proc proc /proc): processes are found and watched there";
  }
  if (::access("/dev/null", R_OK | W_OK) != 0) {
    return "/dev/null: " + std::string(std::strerror(errno)) +
           "; create it (mknod -m 666 /dev/null c 1 3): workers read it as standard input";
  }
  return std::nullopt;
}

}  // namespace ddprun
