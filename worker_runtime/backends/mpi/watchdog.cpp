#include "worker_runtime/backends/mpi/watchdog.hpp"

#include "worker_runtime/backends/mpi/mpi_world.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ddprun::mpi {

namespace {

/// What the agent says, as the exception that backends which can throw one say it.
PeerFailed failure_of(const control::ControlPage& page) {
  const auto record = page.abort_record();
  return {record->rank, "the attempt was ended: " + record->reason};
}

}  // namespace

Watchdog::Watchdog(std::string group, int ranks, std::optional<control::ControlPage> page,
                   bool ends_all)
    : group_(std::move(group)),
      ranks_(static_cast<std::size_t>(ranks)),
      page_(std::move(page)),
      ends_all_(ends_all),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  wake();
  thread_.join();
}

void Watchdog::wake() noexcept {
  wakes_.fetch_add(1);
  shared_memory::futex_wake_all(&wakes_);
}

void Watchdog::begin(const Operation& operation, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (page_ && page_->is_aborted()) throw failure_of(*page_);
  operation_ = &operation;
  deadline_ = deadline;
  if (deadline.time() < sleeps_until_) wake();
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
    const std::uint32_t wakes = wakes_.load();
    // Once the attempt is over no call begins any more, and this one must not go on.
    const bool is_over = page_ && page_->is_aborted();
    if (operation_ != nullptr && is_over)
      end_process(std::string("PeerFailed: ") + failure_of(*page_).what());
    if (operation_ != nullptr && deadline_.passed())
      end_process("it had not ended " + deadline_.describe());
    const Deadline limit = operation_ == nullptr ? Deadline::never() : deadline_;
    sleeps_until_ = limit.time();
    lock.unlock();
    shared_memory::FutexSet set;
    set.add(&wakes_, wakes);
    if (page_ && !is_over) set.add(&page_->abort_word(), 0);
    set.sleep(limit);
    lock.lock();
  }
}

void Watchdog::end_process(const std::string& reason) const {
  // Nobody is left to take an exception, and MPI itself says only that it was aborted.
  std::fprintf(stderr, "ddprun: %s over MPI: %s; ending the process\n",
               describe_in(group_, *operation_, ranks_).c_str(), reason.c_str());
  if (ends_all_) end_all(EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace ddprun::mpi
