#include "launcher/ssh/agent_supervisor.hpp"

#include "launcher/report/agent_line.hpp"
#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace ddprun::ssh {

namespace {

/// Longer than any mark.
constexpr std::size_t kMarkBytesMax = 256;

bool is_forwarded(int signal) {
  const auto forwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGRTMIN};
  return std::find(forwarded.begin(), forwarded.end(), signal) != forwarded.end();
}

class Supervisor {
 public:
  /// `ready`: the agent writes its mark to it after it has read its task.
  Supervisor(pid_t agent, UniqueFd ready)
      : agent_(agent),
        ready_(std::move(ready)),
        agent_end_(static_cast<int>(::syscall(SYS_pidfd_open, agent, 0))) {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
    signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC));
    if (agent_end_.get() < 0 || signals_.get() < 0) throw_system_error("agent-over-ssh", errno);
  }

  int run() {
    std::array<pollfd, 4> sources{{{agent_end_.get(), POLLIN, 0},
                                   {signals_.get(), POLLIN, 0},
                                   {ready_.get(), POLLIN, 0},
                                   {-1, POLLIN, 0}}};
    auto& [agent_end, signals, ready, input] = sources;
    while (agent_end.revents == 0) {
      if (::poll(sources.data(), sources.size(), -1) < 0) continue;
      if (signals.revents != 0) forward_own_signal();
      if (ready.revents != 0 && !read_mark()) {
        ready.fd = -1;
        // Until then the agent reads standard input.
        if (!mark_.empty()) input.fd = STDIN_FILENO;
      }
      if (input.revents != 0 && !forward_signals()) input.fd = -1;
    }
    return report_exit();
  }

 private:
  void forward_own_signal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return;
    ::kill(agent_, static_cast<int>(info.ssi_signo));
  }

  /// Returns false at the end of the stream.
  bool read_mark() {
    std::array<char, kMarkBytesMax> bytes{};
    const auto count = ::read(ready_.get(), bytes.data(), bytes.size());
    if (count > 0) mark_.append(bytes.data(), static_cast<std::size_t>(count));
    return count > 0 || (count < 0 && errno == EINTR);
  }

  /// Returns false if the connection has ended.
  bool forward_signals() {
    std::array<char, 64> bytes{};
    const auto count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (count <= 0) {
      ::kill(agent_, SIGTERM);
      return false;
    }
    for (const char signal : std::string_view(bytes.data(), static_cast<std::size_t>(count))) {
      if (is_forwarded(signal)) ::kill(agent_, signal);
    }
    return true;
  }

  int report_exit() {
    int status = 0;
    while (::waitpid(agent_, &status, 0) < 0 && errno == EINTR) {
    }
    const bool is_killed = WIFSIGNALED(status);
    const int exit_code = is_killed ? -WTERMSIG(status) : WEXITSTATUS(status);
    if (!mark_.empty()) {
      const auto line =
          marked(mark_, {.kind = AgentLine::Kind::agent_exit, .text = std::to_string(exit_code)});
      // Fails if the connection has ended.
      [[maybe_unused]] const auto written = quiet_write(STDERR_FILENO, line.data(), line.size());
    }
    return is_killed ? kExitSignalBase - exit_code : exit_code;
  }

  const pid_t agent_;
  UniqueFd ready_;
  UniqueFd agent_end_;  ///< pidfd
  UniqueFd signals_;    ///< signalfd
  std::string mark_;    ///< empty: the agent has not read a task
};

/// Runs in the child: reverts settings that only the supervisor needs.
void become_agent(pid_t supervisor, const sigset_t& signals) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The supervisor may have ended before the request.
  if (::getppid() != supervisor) ::_exit(kExitFailure);
  ::setsid();
  ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

}  // namespace

int run_supervised_agent(const std::function<int(const AgentStart&)>& run_agent) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("agent-over-ssh: pipe", errno);
  UniqueFd reader(ends[0]), writer(ends[1]);
  const pid_t supervisor = ::getpid();
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t agent = ::fork();
  if (agent < 0) throw_system_error("agent-over-ssh: fork", errno);
  if (agent > 0) {
    writer = UniqueFd();
    return Supervisor(agent, std::move(reader)).run();
  }
  become_agent(supervisor, before);
  reader = UniqueFd();
  const auto start = read_agent_start();
  if (quiet_write(writer.get(), start.mark.data(), start.mark.size()) < 0) {
    throw_system_error("agent-over-ssh: supervisor", errno);
  }
  writer = UniqueFd();
  return run_agent(start);
}

}  // namespace ddprun::ssh
