#include "launcher/process/guardian.hpp"

#include <ddprun/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

namespace {

/// The bounds of this process' command line in its memory, as the kernel tells them; empty if it
/// does not.
std::span<char> command_line_memory() {
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  // The name in parentheses may hold anything; the state is the third field, the bounds are the
  // 48th and the 49th.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int field = 3; field < 48; ++field) fields >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || end <= begin) return {};
  return {reinterpret_cast<char*>(begin), end - begin};
}

/// Neither `pkill -f train.py` nor `pkill ddprun` may hit it along with the agent.
void take_own_name(pid_t agent) {
  const auto memory = command_line_memory();
  if (!memory.empty()) {
    const auto title = "guardian of " + std::to_string(agent);
    std::fill(memory.begin(), memory.end(), '\0');
    // The last byte stays 0: otherwise the kernel takes the environment for a part of it.
    std::copy_n(title.begin(), std::min(title.size(), memory.size() - 1), memory.begin());
  }
  // Last, so that who sees the name may rely on all the rest.
  ::prctl(PR_SET_NAME, "guardian", 0, 0, 0);
}

/// A session of its own, no signal but SIGKILL, no descriptor but the pipe: a terminal, a pipe to
/// `cat` or a folder to be unmounted must not notice that the guardian exists.
void detach_from_everything(int pipe) {
  ::setsid();
  for (int signal = 1; signal <= SIGRTMAX; ++signal) ::signal(signal, SIG_IGN);
  ::dup2(pipe, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);
  [[maybe_unused]] const int result = ::chdir("/");
}

[[noreturn]] void guard(pid_t agent, int pipe, const std::function<void()>& clean_up) noexcept {
  detach_from_everything(pipe);
  take_own_name(agent);
  char nothing = 0;
  while (::read(STDIN_FILENO, &nothing, 1) < 0 && errno == EINTR) {
  }
  clean_up();
  ::_exit(0);
}

}  // namespace

Guardian::Guardian(const std::function<void()>& clean_up) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("guardian: pipe", errno);
  const pid_t agent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) guard(agent, ends[0], clean_up);
  const int error = errno;
  ::close(ends[0]);
  pipe_ = ends[1];
  if (pid_ < 0) {
    ::close(pipe_);
    throw_system_error("guardian: no process can be had (see ulimit -u)", error);
  }
}

Guardian::~Guardian() {
  // Not asked but killed: somebody may have stopped it.
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::close(pipe_);
}

}  // namespace ddprun
