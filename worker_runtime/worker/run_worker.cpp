#include "rendezvous/control/control_page.hpp"
#include "worker_runtime/worker/failure_report.hpp"
#include <ddprun/error.hpp>
#include <ddprun/worker.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace ddprun {

namespace {

/// What the exit handler needs to know.
struct Announcement {
  control::ControlPage page;
  int slot;
};

void announce_exit(int status, void* argument) {
  auto* announcement = static_cast<Announcement*>(argument);
  announcement->page.announce_exit(announcement->slot, status);
}

/// Takes the inherited page over. It stays mapped to the end of the process, whose last act is the
/// exit handler.
void announce_alive(const WorkerEnv& env) {
  if (!env.control_page_fd) return;
  const int slot = env.control_page_slot;
  // Static, so that leak checkers still see it when the exit handler has let go of it.
  static auto* const announcement =
      new Announcement{control::ControlPage::attach(*env.control_page_fd, slot), slot};
  announcement->page.announce_alive(slot);
  ::on_exit(announce_exit, announcement);
}

int report(const std::exception_ptr& failure, int exit_code) {
  const std::string message = worker::describe(failure);
  worker::report_failure(message);
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return exit_code;
}

}  // namespace

int run_worker(const std::function<int(const WorkerEnv&)>& body) noexcept {
  WorkerEnv env;
  try {
    env = from_process_environment();
    worker::install_failure_report(env.error_file);
    announce_alive(env);
  } catch (const Error& error) {
    return report(std::current_exception(), error.code() == Errc::usage ? 2 : 1);
  } catch (...) {
    return report(std::current_exception(), 1);
  }
  try {
    return body(env);
  } catch (...) {
    return report(std::current_exception(), 1);
  }
}

}  // namespace ddprun
