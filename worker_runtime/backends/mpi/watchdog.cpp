#include "worker_runtime/backends/mpi/watchdog.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ddprun::mpi {

Watchdog::Watchdog(std::string group) : group_(std::move(group)), thread_([this] { watch(); }) {}

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
    sleeps_until_ = operation_ == nullptr ? Deadline::Clock::time_point::max() : deadline_.time();
    if (sleeps_until_ == Deadline::Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, sleeps_until_);
    }
  }
}

void Watchdog::end_process(const std::string& reason) const {
  // Nobody is left to take an exception, and MPI itself says only that it was aborted.
  std::fprintf(stderr, "ddprun: %s (call %llu of group \"%s\") over MPI: %s; ending the process\n",
               to_string(operation_->collective),
               static_cast<unsigned long long>(operation_->sequence), group_.c_str(),
               reason.c_str());
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace ddprun::mpi
