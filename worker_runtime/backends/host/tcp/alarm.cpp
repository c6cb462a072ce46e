#include "worker_runtime/backends/host/tcp/alarm.hpp"

#include "rendezvous/base/futex.hpp"
#include "worker_runtime/backends/new_thread.hpp"
#include <ddprun/error.hpp>

#include <cerrno>
#include <sys/eventfd.h>

namespace ddprun::tcp {

Alarm::Alarm(const shared_memory::Sync& sync)
    : sync_(sync), fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_.get() < 0) throw_system_error("process group: eventfd", errno);
  thread_ = new_thread("process group", [this] {
    sync_.await_failure(stop_);
    ::eventfd_write(fd_.get(), 1);
  });
}

Alarm::~Alarm() {
  stop_.store(1);
  futex_wake_all(&stop_);
  thread_.join();
}

}  // namespace ddprun::tcp
