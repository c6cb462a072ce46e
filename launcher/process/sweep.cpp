#include "launcher/process/sweep.hpp"

#include "launcher/process/kernel_wait.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// Time for descendants to clean up after the last worker's end.
constexpr auto kTidyLimit = 1s;
// Time for killed processes to end that were awaited before, or that cannot be signalled.
constexpr auto kKillLimit = 1s;

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

}  // namespace

asio::awaitable<Swept> Sweep::run(std::vector<pid_t> abandoned, bool is_after_hang) {
  Swept swept;
  abandoned_ = std::move(abandoned);
  is_after_hang_ = is_after_hang;
  co_await wait_for_ends(swept.ended);
  killed_at_ = std::chrono::steady_clock::now();
  bool is_done = co_await kill_for(kKillLimit, swept.ended);
  const auto has_to_wait = [&] { return !is_done && !members_that_may_end().empty(); };
  if (has_to_wait()) {
    is_done = co_await kill_for(limits_.warning_after, swept.ended);
  }
  if (has_to_wait()) {
    for (const pid_t pid : members_that_may_end()) {
      write_log(log_, LogLevel::warn, report_of(pid));
    }
    is_done = co_await kill_for(limits_.abandoned_after, swept.ended);
  }
  if (is_done) co_return swept;
  swept.left = containment_.members();
  for (const pid_t pid : swept.left) swept.reports.push_back(report_of(pid));
  std::erase_if(swept.ended, [&swept](pid_t pid) { return contains(swept.left, pid); });
  co_return swept;
}

/// Waits for descendants that end by themselves after their worker, such as a fork server of
/// Python's multiprocessing, then asks the others to end.
asio::awaitable<void> Sweep::wait_for_ends(std::vector<pid_t>& asked) {
  is_killing_ = false;
  wait_.begin(limits_.own_end);
  auto members = containment_.open_members(Deadline::after(kTidyLimit));
  const bool has_none = members.processes.empty() && !members.cgroup_events;
  co_await wait_for(std::move(members));
  if (!has_none && !is_killing_) {
    wait_.begin(kTidyLimit);
    auto pending = containment_.terminate(asked, Deadline::after(kTidyLimit));
    co_await wait_for(std::move(pending));
  }
  is_killing_ = true;
}

void Sweep::end_wait() {
  if (is_killing_) return;
  is_killing_ = true;
  wait_.end();
}

/// Returns false if members remain after the limit, or none of the remaining ones can be killed.
asio::awaitable<bool> Sweep::kill_for(Deadline::Duration limit, std::vector<pid_t>& met) {
  wait_.begin(limit);
  while (auto killed = containment_.kill_round(met)) {
    refusing_ = killed->refusing;
    if (killed->are_all_refusing()) co_return false;
    co_await wait_for(std::move(*killed));
    if (wait_.is_over()) co_return false;
  }
  co_return true;
}

std::vector<pid_t> Sweep::members_that_may_end() const {
  auto members = containment_.members();
  std::erase_if(members, [&](pid_t pid) {
    return contains(abandoned_, pid) || contains(refusing_, pid) ||
           (is_after_hang_ && is_uninterruptible(pid));
  });
  return members;
}

std::string Sweep::report_of(pid_t pid) const {
  if (contains(refusing_, pid)) {
    return process_and_name(pid) + " belongs to another user and cannot be killed";
  }
  return process_and_name(pid) + " is still running " +
         after_sigkill(std::chrono::steady_clock::now() - killed_at_) + ": " +
         describe(kernel_wait(pid));
}

asio::awaitable<void> Sweep::wait_for(PendingExits ends) {
  for (const auto& process : ends.processes) {
    co_await wait_.until_readable(process.pidfd.get());
  }
  while (ends.cgroup_events && !wait_.is_over() &&
         Cgroup::has_event(*ends.cgroup_events, Cgroup::kPopulated)) {
    co_await wait_.until_change(ends.cgroup_events->get());
  }
}

}  // namespace ddprun
