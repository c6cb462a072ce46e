#include "launcher/process/guardian.hpp"

#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun {

namespace {

constexpr char kDismissal = 'q';

/// A session of its own, no signal but SIGKILL, no descriptor but the pipe: a terminal, a pipe to
/// `cat` or a folder to be unmounted must not notice that the guardian exists.
void detach_from_everything(int pipe) {
  ::setsid();
  for (int signal = 1; signal <= SIGRTMAX; ++signal) ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_NAME, "ddprun-guardian", 0, 0, 0);
  ::dup2(pipe, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);
  [[maybe_unused]] const int result = ::chdir("/");
}

[[noreturn]] void guard(int pipe, const std::function<void()>& clean_up) noexcept {
  detach_from_everything(pipe);
  char word = 0;
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, &word, 1);
  } while (count < 0 && errno == EINTR);
  if (count != 1 || word != kDismissal) clean_up();
  ::_exit(0);
}

}  // namespace

Guardian::Guardian(const std::function<void()>& clean_up) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("guardian: pipe", errno);
  pid_ = ::fork();
  if (pid_ == 0) guard(ends[0], clean_up);
  const int error = errno;
  ::close(ends[0]);
  pipe_ = ends[1];
  if (pid_ < 0) {
    ::close(pipe_);
    throw_system_error("guardian: fork", error);
  }
}

Guardian::~Guardian() {
  quiet_write(pipe_, &kDismissal, 1);  // it may have been killed: then there is no reader
  ::close(pipe_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace ddprun
