#include "worker_runtime/backends/mpi/watchdog.hpp"

#include "worker_runtime/backends/mpi/mpi_world.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ddprun::mpi {

Watchdog::Watchdog(std::string group, int ranks)
    : group_(std::move(group)),
      ranks_(static_cast<std::size_t>(ranks)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::begin(const Operation& operation, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  operation_ = &operation;
  deadline_ = deadline;
  if (deadline.time() < sleeps_until_) changed_.notify_one();
}

void Watchdog::end() {
  const std::lock_guard lock(mutex_);
  operation_ = nullptr;
}

void Watchdog::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (operation_ != nullptr) end_process(reason);
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!is_closing_) {
    if (operation_ != nullptr && deadline_.passed())
      end_process("it had not ended " + deadline_.describe());
    sleeps_until_ = (operation_ == nullptr ? Deadline::never() : deadline_).time();
    changed_.wait_until(lock, sleeps_until_);
  }
}

void Watchdog::end_process(const std::string& reason) const {
  // No caller is left to handle an exception, and MPI only reports that it was aborted.
  std::fprintf(stderr, "ddprun: %s over MPI: %s; ending the process\n",
               describe_in(group_, *operation_, ranks_).c_str(), reason.c_str());
  end_all(EXIT_FAILURE);
}

}  // namespace ddprun::mpi
