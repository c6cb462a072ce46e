#include "launcher/process/death_watch.hpp"

#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/start_thread.hpp"

#include <utility>

namespace ddprun {

DeathWatch::DeathWatch(const control::ControlPage& page, std::vector<pid_t> pids,
                       std::function<void(int, std::optional<std::string>)> on_death,
                       std::function<void()> on_change)
    : page_(page),
      pids_(std::move(pids)),
      on_death_(std::move(on_death)),
      on_change_(std::move(on_change)),
      is_settled_(std::make_unique<bool[]>(static_cast<std::size_t>(page.local_world_size()))) {
  thread_ = start_thread([this] { run(); });
}

DeathWatch::~DeathWatch() {
  std::unique_lock lock(mutex_);
  must_stop_ = true;
  stop_changed_.notify_one();
  // Repeated, since a worker can reset the change counter and thus hide a single call.
  do page_.wake();
  while (!stop_changed_.wait_for(lock, kCheckPeriod, [this] { return has_stopped_; }));
  lock.unlock();
  thread_.join();
}

void DeathWatch::run() {
  // Groups that were created before this thread's first check must be reported, too.
  std::uint32_t changes_reported = 0;
  Deadline next_check = Deadline::after({});
  Deadline next_change = next_check;
  while (true) {
    const auto changes = page_.changes();
    if (must_stop_before(next_check)) return;
    check();
    next_check = Deadline::after(kCheckPeriod);
    if (changes != changes_reported && next_change.passed()) {
      changes_reported = changes;
      next_change = Deadline::after(kChangePeriod);
      on_change_();
    }
    page_.wait_for_change(changes, is_settled_.get(),
                          changes == changes_reported ? Deadline::never() : next_change);
  }
}

bool DeathWatch::must_stop_before(Deadline deadline) {
  std::unique_lock lock(mutex_);
  has_stopped_ = stop_changed_.wait_until(lock, deadline.time(), [this] { return must_stop_; });
  if (has_stopped_) stop_changed_.notify_one();
  return has_stopped_;
}

void DeathWatch::check() {
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    if (is_settled_[i]) continue;
    const int local_rank = static_cast<int>(i);
    auto damage = page_.damage(local_rank);
    if (damage) is_settled_[i] = true;
    if (damage || is_failure(local_rank)) on_death_(local_rank, std::move(damage));
  }
}

bool DeathWatch::is_failure(int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  const bool is_exiting = page_.phase(local_rank) == control::WorkerPhase::exiting;
  const bool is_dead = page_.is_dead(local_rank);
  if (!is_exiting && !is_dead) return false;
  is_settled_[index] = true;
  if (is_exiting) return page_.exit_status(local_rank) != 0;
  // exec releases the mutexes as well, and the process continues; _exit(0) is not a failure.
  const ProcessState state = process_state(pids_[index]);
  return state.is_exiting() && state.exit_status != 0;
}

}  // namespace ddprun
