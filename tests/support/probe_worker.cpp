// A worker that performs one action, named by its first argument. Links the control page like the
// worker runtime.
#include "rendezvous/control/control_page.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/futex.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using ddprun::control::ControlPage;

ControlPage attach() {
  return ControlPage::attach(std::atoi(std::getenv("DDPRUN_CONTROL_FD")),
                             std::atoi(std::getenv("LOCAL_RANK")));
}

void report_ready(const char* file) {
  std::FILE* stream = std::fopen(file, "w");
  std::fprintf(stream, "%d\n", ::getpid());
  std::fclose(stream);
}

/// Announces itself, reports that it is ready, and waits to be killed.
int hold(const char* ready) {
  auto page = attach();
  page.announce_alive(std::atoi(std::getenv("LOCAL_RANK")));
  report_ready(ready);
  while (true) ::pause();
}

/// The same, but at SIGUSR1 it exits with `status` without announcing that.
int leave(const char* status, const char* ready) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  auto page = attach();
  page.announce_alive(std::atoi(std::getenv("LOCAL_RANK")));
  report_ready(ready);
  int signal = 0;
  ::_exit(::sigwait(&wanted, &signal) == 0 ? std::atoi(status) : 99);
}

/// Announces itself and its exit with `status`, then waits to be killed instead of exiting.
int announce_exit(const char* status, const char* ready) {
  auto page = attach();
  const int local_rank = std::atoi(std::getenv("LOCAL_RANK"));
  page.announce_alive(local_rank);
  page.announce_exit(local_rank, std::atoi(status));
  report_ready(ready);
  while (true) ::pause();
}

/// Announces itself and its exit with `status`, stops itself if `first` is "stopped", and exits
/// with the status at SIGWINCH, or with 50 if SIGCONT arrives before.
int announce_and_go(const char* status, const char* first, const char* ready) {
  sigset_t awaited;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGCONT);
  ::sigaddset(&awaited, SIGWINCH);
  ::sigprocmask(SIG_BLOCK, &awaited, nullptr);
  auto page = attach();
  const int local_rank = std::atoi(std::getenv("LOCAL_RANK"));
  page.announce_alive(local_rank);
  page.announce_exit(local_rank, std::atoi(status));
  report_ready(ready);
  if (std::strcmp(first, "stopped") == 0) ::raise(SIGSTOP);
  // The signal with the lower number is delivered first.
  int signal = 0;
  ::sigwait(&awaited, &signal);
  return signal == SIGCONT ? 50 : std::atoi(status);
}

/// Announces itself, then executes another program, which is not a death.
int become_sleep(const char* ready) {
  auto page = attach();
  page.announce_alive(std::atoi(std::getenv("LOCAL_RANK")));
  const std::string script = "echo >" + std::string(ready) + "; exec sleep 1000";
  ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
  return 1;
}

/// Announces itself, ignores SIGTERM, waits for the end of the attempt and writes its reason to a
/// file.
int await_abort(const char* ready, const char* file) {
  std::signal(SIGTERM, SIG_IGN);
  auto page = attach();
  page.announce_alive(std::atoi(std::getenv("LOCAL_RANK")));
  report_ready(ready);
  while (!page.is_aborted()) {
    ::syscall(SYS_futex, &page.abort_word(), FUTEX_WAIT, 0, nullptr, nullptr, 0);
  }
  std::FILE* stream = std::fopen(file, "w");
  std::fputs(page.abort_record()->reason.c_str(), stream);
  std::fclose(stream);
  page.announce_exit(std::atoi(std::getenv("LOCAL_RANK")), 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "hold" && argc == 3) return hold(argv[2]);
  if (what == "leave" && argc == 4) return leave(argv[2], argv[3]);
  if (what == "announce-exit" && argc == 4) return announce_exit(argv[2], argv[3]);
  if (what == "announce-and-go" && argc == 5) return announce_and_go(argv[2], argv[3], argv[4]);
  if (what == "await-abort" && argc == 4) return await_abort(argv[2], argv[3]);
  if (what == "become-sleep" && argc == 3) return become_sleep(argv[2]);
  std::fprintf(stderr, "probe_worker: what?\n");
  return 2;
}
