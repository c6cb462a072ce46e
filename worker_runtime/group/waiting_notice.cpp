#include "worker_runtime/group/waiting_notice.hpp"

#include <chrono>
#include <exception>
#include <string>
#include <system_error>

namespace ddprun {

namespace {

// Enough for a responsive store.
constexpr auto kStoreTimeout = std::chrono::seconds(1);

bool answers(const StoreEndpoint& endpoint) {
  try {
    Store::connect(endpoint, Deadline::after(kStoreTimeout));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::string seconds(Deadline::Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

std::string describe_wait(const WorkerEnv& env, const std::string& group, Deadline deadline) {
  const auto left = deadline.remaining();
  const int others = env.world_size - 1;
  std::string text = "process group \"" + group + "\": rank " + std::to_string(env.rank) +
                     " has waited " + seconds(deadline.elapsed()) + " for the " +
                     (others == 1 ? "other rank" : std::to_string(others) + " other ranks");
  const StoreEndpoint endpoint = env.store();
  if (endpoint.port != 0) {
    text += " at the store " + endpoint.host + ":" + std::to_string(endpoint.port) +
            (answers(endpoint) ? ", which responds" : ", which does not respond");
  }
  if (deadline.is_never()) {
    text += ", and keeps waiting";
  } else if (left >= std::chrono::seconds(1)) {
    text += ", and waits for " + seconds(left) + " more";
  }
  // Variables from an agent or MPI are correct.
  if (!env.is_launched() && env.mpi_vendor.empty())
    text += " (from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; unset them to run one worker)";
  return text;
}

}  // namespace

WaitingNotice::WaitingNotice(const WorkerEnv& env, const GroupOptions& options, Deadline deadline) {
  if (env.world_size == 1 || !options.log) return;
  try {
    thread_ = std::thread([this, &env, &options, deadline] { run(env, options, deadline); });
  } catch (const std::system_error&) {
    // Without a thread there are no notices; the group may still connect.
  }
}

WaitingNotice::~WaitingNotice() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WaitingNotice::run(const WorkerEnv& env, const GroupOptions& options, Deadline deadline) {
  // Intervals double, so that a long wait logs a few lines.
  Deadline::Duration interval = options.waiting_notice;
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return is_over_; };
  while (!changed_.wait_until(lock, Deadline::after(interval).time(), is_over)) {
    lock.unlock();
    write_log(options.log, LogLevel::warn, describe_wait(env, options.name, deadline));
    lock.lock();
    interval = deadline.elapsed();
  }
}

}  // namespace ddprun
