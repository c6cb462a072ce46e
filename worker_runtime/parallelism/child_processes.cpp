#include "worker_runtime/parallelism/child_processes.hpp"

#include "worker_runtime/worker/failure_report.hpp"
#include <ddprun/error.hpp>
#include <ddprun/process_group.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace ddprun::spawning {

namespace {

// Fits into a socket's buffer, so that a child never waits for its parent to read it.
constexpr std::size_t kMessageBytesMax = 16 << 10;
constexpr int kStopSignals[] = {SIGTERM, SIGINT};
// First byte of a message: the exception was PeerFailed.
constexpr char kVictim = 'v';
constexpr char kCulprit = 'c';

int open_pidfd(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

/// Returns false if the other side has ended.
bool read_port(int channel, std::uint16_t& port) {
  ssize_t got = 0;
  do {
    got = ::recv(channel, &port, sizeof port, MSG_WAITALL);
  } while (got < 0 && errno == EINTR);
  return got == ssize_t{sizeof port};
}

void send_message(int channel, char kind, const std::string& text) {
  const std::string message = kind + text.substr(0, kMessageBytesMax - 1);
  ::send(channel, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void read_message(int channel, ChildEnd& end) {
  std::string message(kMessageBytesMax, '\0');
  const ssize_t got = ::recv(channel, message.data(), message.size(), MSG_DONTWAIT);
  if (got <= 0) return;
  end.is_victim = message.front() == kVictim;
  message.resize(static_cast<std::size_t>(got));
  std::size_t begin = 1;
  if (end.is_victim) {
    begin = message.find(' ') + 1;
    end.peer = std::atoi(message.c_str() + 1);
  }
  end.message = message.substr(begin);
}

/// Ends a child. The parent's streams were empty at the fork, so only the child's own output is
/// flushed.
[[noreturn]] void leave(int exit_code) {
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(exit_code);
}

/// Blocks signals that stop a process during its lifetime.
class StopSignalBlock {
 public:
  StopSignalBlock() {
    sigset_t later;
    ::sigemptyset(&later);
    for (const int number : kStopSignals) ::sigaddset(&later, number);
    ::sigprocmask(SIG_BLOCK, &later, &before_);
  }
  StopSignalBlock(const StopSignalBlock&) = delete;
  StopSignalBlock& operator=(const StopSignalBlock&) = delete;
  ~StopSignalBlock() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

[[noreturn]] void run_child(pid_t parent, const sigset_t& mask, int channel,
                            const std::function<void(std::uint16_t)>& body) {
  ::setpgid(0, 0);
  // The parent's handlers must not run in the child.
  for (const int number : kStopSignals) std::signal(number, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before that.
  if (::getppid() != parent) ::_exit(1);
  std::uint16_t port = 0;
  if (!read_port(channel, port)) ::_exit(1);
  try {
    body(port);
  } catch (const PeerFailed& failure) {
    send_message(channel, kVictim, std::to_string(failure.rank()) + " " + failure.what());
    leave(1);
  } catch (...) {
    const auto described = worker::describe(std::current_exception());
    send_message(channel, kCulprit, described.message);
    // The message does not contain the backtrace.
    if (!described.backtrace.empty()) std::fprintf(stderr, "%s\n", described.backtrace.c_str());
    leave(1);
  }
  leave(0);
}

}  // namespace

ChildProcesses::~ChildProcesses() {
  signal(SIGKILL);
  for (const Child& child : children_) {
    while (child.is_running && ::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void ChildProcesses::fork(const std::function<void(std::uint16_t)>& body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_system_error("spawn: worker " + std::to_string(children_.size()) +
                           " (each takes two descriptors here): socketpair",
                       errno);
  }
  Child child{.channel = UniqueFd(ends[0])};
  UniqueFd other(ends[1]);
  const pid_t parent = ::getpid();
  const StopSignalBlock later;
  child.pid = ::fork();
  if (child.pid < 0) throw_system_error("spawn: fork", errno);
  if (child.pid == 0) {
    child.channel = UniqueFd();
    children_.clear();
    run_child(parent, later.before(), other.get(), body);
  }
  // In the parent as well as in the child, so that the process group exists before the first signal
  // is sent.
  ::setpgid(child.pid, child.pid);
  child.pidfd = UniqueFd(open_pidfd(child.pid));
  if (child.pidfd.get() < 0) {
    const int error = errno;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    throw_system_error("spawn: pidfd_open", error);
  }
  children_.push_back(std::move(child));
}

void ChildProcesses::give_port(std::uint16_t port) {
  for (const Child& child : children_)
    ::send(child.channel.get(), &port, sizeof port, MSG_NOSIGNAL);
}

std::vector<int> ChildProcesses::running() const {
  std::vector<int> running;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].is_running) running.push_back(static_cast<int>(i));
  }
  return running;
}

std::optional<ChildEnd> ChildProcesses::wait(Deadline deadline) {
  std::vector<pollfd> wanted;
  for (const int number : running())
    wanted.push_back({children_[static_cast<std::size_t>(number)].pidfd.get(), POLLIN, 0});
  while (true) {
    const int ready = ::poll(wanted.data(), wanted.size(), deadline.remaining_poll_milliseconds());
    if (ready < 0 && errno != EINTR) throw_system_error("spawn: poll", errno);
    if (ready > 0) break;
    if (deadline.passed()) return std::nullopt;
  }
  const auto first = std::find_if(wanted.begin(), wanted.end(),
                                  [](const pollfd& one) { return one.revents != 0; });
  const auto place = static_cast<std::size_t>(first - wanted.begin());
  return reap(static_cast<std::size_t>(running()[place]));
}

ChildEnd ChildProcesses::reap(std::size_t number) {
  Child& child = children_[number];
  // The child has not been reaped, so its process group ID cannot have been reused.
  ::kill(-child.pid, SIGKILL);
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(child.pid, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  child.is_running = false;
  if (reaped < 0)
    throw_system_error("spawn: another part of the program has reaped a worker: waitpid", errno);
  ChildEnd end{.number = static_cast<int>(number), .pid = child.pid};
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  read_message(child.channel.get(), end);
  return end;
}

void ChildProcesses::signal(int number) const noexcept {
  for (const Child& child : children_) {
    if (child.is_running) ::kill(-child.pid, number);
  }
}

}  // namespace ddprun::spawning
