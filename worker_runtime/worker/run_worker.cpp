#include "rendezvous/control/control_page.hpp"
#include "worker_runtime/worker/failure_report.hpp"
#include "worker_runtime/worker/stack_answer.hpp"
#include <ddprun/error.hpp>
#include <ddprun/worker.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace ddprun {

namespace {

/// State for the exit handler.
struct Announcement {
  control::ControlPage page;
  int slot;
};

void announce_exit(int status, void* argument) {
  auto* announcement = static_cast<Announcement*>(argument);
  announcement->page.announce_exit(announcement->slot, status);
}

/// Maps the inherited page for the life of the process; the exit handler uses it last.
void announce_alive(const WorkerEnv& env) {
  if (!env.control_page_fd) return;
  const int slot = env.control_page_slot;
  // Static, so that leak checkers can reach it after the exit handler has run.
  static auto* const announcement =
      new Announcement{control::ControlPage::attach(*env.control_page_fd, slot), slot};
  announcement->page.announce_alive(slot);
  ::on_exit(announce_exit, announcement);
}

/// Reports the failure to the operator and the agent; returns the exit code. The C++ type, by which
/// the agent distinguishes victims from causes, is not part of the operator's message.
int report(const std::exception_ptr& failure) {
  constexpr int kUsageExit = 2;
  const worker::Failure described = worker::describe(failure);
  std::string printed = described.message;
  // Written to the error file, if there is one, where it does not hide the message.
  if (!worker::report_failure(described) && !described.backtrace.empty())
    printed += "\n" + described.backtrace;
  int exit_code = 1;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    printed = error.what();
    if (error.code() == Errc::usage) exit_code = kUsageExit;
  } catch (...) {
  }
  std::fprintf(stderr, "error: %s\n", printed.c_str());
  return exit_code;
}

}  // namespace

int run_worker(const std::function<int(const WorkerEnv&)>& body) noexcept {
  try {
    const WorkerEnv env = from_process_environment();
    worker::install_failure_report(env.error_file);
    worker::install_stack_dump_handler(env.error_file);
    announce_alive(env);
    return body(env);
  } catch (...) {
    return report(std::current_exception());
  }
}

}  // namespace ddprun
