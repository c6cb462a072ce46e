#include "launcher/process/sweep.hpp"

#include <utility>

namespace ddprun {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

// How long descendants may tidy up after the last worker's end, and how long they may take to die.
constexpr auto kTidyLimit = 1s;
constexpr auto kKillLimit = 1s;

}  // namespace

asio::awaitable<std::vector<pid_t>> Sweep::run() {
  std::vector<pid_t> ended;
  auto asked = containment_.ask(ended);
  is_asking_ = true;
  wait_.begin(kTidyLimit);
  co_await wait_for(std::move(asked));
  is_asking_ = false;
  wait_.begin(kKillLimit);
  while (auto killed = containment_.kill_round(ended)) {
    co_await wait_for(std::move(*killed));
    if (wait_.is_over()) break;
  }
  co_return ended;
}

void Sweep::hurry() {
  if (is_asking_) wait_.end();
}

asio::awaitable<void> Sweep::wait_for(EndsToCome ends) {
  for (const auto& process : ends.processes) {
    co_await wait_.until_readable(process.pidfd.get());
  }
  while (ends.cgroup_events && !wait_.is_over() &&
         Cgroup::tells(*ends.cgroup_events, Cgroup::kPopulated)) {
    co_await wait_.until_change(ends.cgroup_events->get());
  }
}

}  // namespace ddprun
